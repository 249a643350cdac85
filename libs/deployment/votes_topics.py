"""Finds the topics that the votes log grows by and those that are retired; decides which of them new contests get.

A contest keeps its topic for life, so every process must have found a topic before a contest of it is written.
Each reads Kafka's list of topics at its start, and every `POLL_S` seconds checks for the few that can be new. A
projector does so before it raises configuration versions, if its last check is older than `RAISE_S`. A process
uses a topic for new contests `SETTLE_S` after finding it.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from typing import Final, NamedTuple

from libs.contracts.topics import Topic
from libs.contracts.votes_log import VotesLog
from libs.deployment.settings import DeploymentSettings
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topic_presence import TopicPresence
from libs.kafka.topics import append_first, create_missing, create_topics, number_of_partitions, wrong_partitions
from libs.tally.errors import TallyError
from libs.tally.events import LogCreated

POLL_S: Final = 2.0
RAISE_S: Final = 4.0
SETTLE_S: Final = 10.0
"""More than `RAISE_S` and the time until all brokers have a new topic's metadata."""

logger = logging.getLogger(__name__)


class Topics(NamedTuple):
    """Topics of a log of votes that were not known; a retired one is also `later` unless it is the first."""

    later: list[Topic]
    retired: list[Topic]


async def find_topics(settings: KafkaSettings, reader: LogReader, log: VotesLog) -> Topics:
    """Return the complete topics that `log` lacks, and those that are newly retired, by their partitions.

    A topic is complete once each partition has its first record; so is the mark of a retired one, whose first
    record has the number of partitions. Raises `LogUnavailable`, `LogChanged`, and `WrongTopic` if a topic has
    another number of partitions than it was created with.
    """
    return await _topics_among(await reader.topics(), settings, reader, log)


async def _topics_among(
    names: Collection[str], settings: KafkaSettings, reader: LogReader, log: VotesLog
) -> Topics:
    retired = await _marked(reader, log, names)
    known = {topic.name for topic in [*log.topics, *retired]}
    new = {name: first for name in {*names} - known if (first := log.first_in(name)) is not None}
    found = []
    for name, partitions in (await number_of_partitions(settings, list(new)) if new else {}).items():
        begun = await reader.first_records(name, range(partitions))
        sizes = {first.partitions for first in begun.values()}
        if sizes - {partitions}:
            raise WrongTopic(f"topic {name} has {partitions} partitions, and was created with others", topic=name)
        if len(begun) == partitions:
            found.append(Topic(name, partitions, new[name]))
    return Topics(sorted(found, key=_first), retired)


async def find_retired(reader: LogReader, log: VotesLog) -> list[Topic]:
    """Return the topics of `log` that are newly retired. Raises as `find_topics`."""
    return await _marked(reader, log, await reader.topics())


async def _marked(reader: LogReader, log: VotesLog, names: Iterable[str]) -> list[Topic]:
    retired = []
    for name in names:
        first = log.marked_by(name)
        if first is not None and not log.is_retired(first):
            for begun in (await reader.first_records(name, [0])).values():
                assert begun.partitions is not None
                retired.append(Topic(log.name_from(first), begun.partitions, first))
    return sorted(retired, key=_first)


def _first(topic: Topic) -> int:
    return topic.first


async def create_next_topic(settings: KafkaSettings, log: VotesLog, partitions: int) -> Topic:
    """Create the log's next topic, write its first records, and wait until new contests get it.

    After an interruption the same call completes the topic. Raises `WrongTopic` if it has another number of
    partitions, and `LogUnavailable`.
    """
    topic = log.next_topic(partitions)
    await create_missing(settings, [topic])
    existing = (await number_of_partitions(settings, [topic.name]))[topic.name]
    if existing != partitions:
        raise wrong_partitions(topic, existing)
    await create_topics(settings, [topic])
    await asyncio.sleep(POLL_S + SETTLE_S)
    log.add([topic])
    return topic


async def mark_retired(settings: KafkaSettings, log: VotesLog, topic: Topic) -> None:
    """Mark a topic as retired, and wait until all processes have read that: none appends to it any more.

    Repeatable. Raises `WrongTopic` and `LogUnavailable`.
    """
    mark = log.mark_of(topic)
    await create_missing(settings, [mark])
    async with LogReader(settings) as reader:
        if not await reader.first_records(mark.name, [0]):
            first = LogCreated(secrets.token_hex(16), partitions=topic.partitions)
            await append_first(settings, [(mark.name, 0, first)])
    await asyncio.sleep(POLL_S + SETTLE_S)
    log.retire([topic])


class VotesTopics:
    """Extends `log` by the topics found, and marks those that were retired."""

    def __init__(
        self, settings: KafkaSettings, log: VotesLog, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.log = log
        self._settings = settings
        self._clock = clock
        self._reader = LogReader(settings)
        self._presence = TopicPresence(settings)
        self._is_new = True
        self._read_at = float("-inf")
        self._known_since: dict[int, float] = {}

    async def refresh(self, max_age_s: float = 0.0) -> None:
        """Find new topics, unless they were looked for in the last `max_age_s`. Raises as `find_topics`."""
        now = self._clock()
        if now - self._read_at <= max_age_s:
            return
        found = await find_topics(self._settings, self._reader, self.log) if self._is_new else await self._follow()
        self._add(found)
        self._is_new = False
        while any(found):  # further ones may follow
            found = await self._follow()
            self._add(found)
        self._read_at = now

    async def _follow(self) -> Topics:
        """Return what `find_topics` does, without the list of all topics: it has all their partitions."""
        names = await self._presence.existing(self.log.following_names)
        return await _topics_among(names, self._settings, self._reader, self.log)

    def _add(self, found: Topics) -> None:
        self.log.add(found.later)
        self.log.retire(found.retired)
        for topic in found.later:
            self._known_since[topic.first] = self._clock()
            logger.info("votes topic %s with %d partitions is in use", topic.name, topic.partitions)
        for topic in found.retired:
            logger.info("votes topic %s is retired", topic.name)

    def for_new_contests(self) -> Topic:
        """Return the latest topic that every process has found.

        This process may have started just after a growth. But growths are `SETTLE_S` apart, so only the latest
        topic can be new.
        """
        *earlier, latest = self.log.current
        is_settled = self._known_since.get(latest.first, self._clock()) <= self._clock() - SETTLE_S
        return latest if is_settled or not earlier else earlier[-1]

    async def run(self) -> None:
        """Refresh until cancelled."""
        while True:
            try:
                await self.refresh()
            except TallyError as error:
                logger.debug("the list of topics cannot be read: %s", error)
            except Exception:
                logger.exception("reading the list of topics failed")
            await asyncio.sleep(POLL_S)

    async def close(self) -> None:
        await self._reader.close()
        await self._presence.close()


@asynccontextmanager
async def open_votes_log(settings: DeploymentSettings, shared: VotesLog | None = None) -> AsyncIterator[VotesLog]:
    """Yield `shared`, or a log that grows while the context is open."""
    if shared is not None:
        yield shared
        return
    topics = VotesTopics(settings, VotesLog(settings.namespace, settings.partitions))
    watching = asyncio.create_task(topics.run())
    try:
        yield topics.log
    finally:
        watching.cancel()
        await asyncio.wait([watching])
        await topics.close()
