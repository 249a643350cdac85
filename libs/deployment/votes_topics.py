"""Finds the topics that the votes log grows by, and decides which of them new contests get.

A contest keeps its topic for life, so every process must have found a topic before a contest of it is written.
A process uses a topic for new contests `votes_topic_settle_s` after finding it, or at once if the brokers have
had it for longer than that and `CLOCK_DIFFERENCE_S`. Each reads Kafka's list of topics at its start, and checks
for the next one once per `POLL` of that time. A projector does so before it raises configuration versions, if its
last check is older than `RAISE` of it. The rest is for the brokers, which must all have a new topic's metadata.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable
from typing import Final

from libs.concurrency.tasks import every
from libs.contracts.topics import Topic, VotesLog
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import TopicPresence, create_topics, number_of_partitions

POLL: Final = 0.2
RAISE: Final = 0.4
CLOCK_DIFFERENCE_S: Final = 50.0
"""The largest between this machine and the brokers."""

logger = logging.getLogger(__name__)


async def find_topics(settings: KafkaSettings, reader: LogReader, log: VotesLog) -> list[Topic]:
    """Return the complete topics that `log` lacks, by their partitions.

    A topic is complete once each partition has its first record. Raises `LogUnavailable`, `LogChanged`, and
    `WrongTopic` if a topic has another number of partitions than it was created with.
    """
    return await _topics_among(await reader.topics(), settings, reader, log)


async def _topics_among(
    names: Iterable[str], settings: KafkaSettings, reader: LogReader, log: VotesLog
) -> list[Topic]:
    known = {topic.name for topic in log.topics}
    new = {name: first for name in {*names} - known if (first := log.first_in(name)) is not None}
    found = []
    for name, partitions in (await number_of_partitions(settings, list(new)) if new else {}).items():
        begun = await reader.first_records(name, range(partitions))
        sizes = {first.partitions for first in begun.values()}
        if sizes - {partitions}:
            raise WrongTopic(f"topic {name} has {partitions} partitions, and was created with others", topic=name)
        if len(begun) == partitions:
            found.append(Topic(name, partitions, new[name]))
    return sorted(found, key=lambda topic: topic.first)


async def create_next_topic(settings: KafkaSettings, log: VotesLog, partitions: int) -> Topic:
    """Create the log's next topic, write its first records, and wait until new contests get it.

    After an interruption the same call completes the topic. Raises `WrongTopic` if it has another number of
    partitions, and `LogUnavailable`.
    """
    topic = log.next_topic(partitions)
    await create_topics(settings, [topic])
    await asyncio.sleep((1 + POLL) * settings.votes_topic_settle_s)
    log.add([topic])
    return topic


class VotesTopics:
    """Extends `log` by the topics found."""

    def __init__(
        self,
        settings: KafkaSettings,
        log: VotesLog,
        reader: LogReader,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.log = log
        self._settings = settings
        self._clock = clock
        self._settle_s = settings.votes_topic_settle_s
        self._reader = reader
        self._presence = TopicPresence(settings)
        self._is_new = True
        self._read_at = float("-inf")
        self._settles_at: dict[int, float] = {}
        """When all processes have found a topic, by its first partition."""

    async def refresh(self, max_age_s: float = 0.0) -> None:
        """Find new topics, unless they were looked for in the last `max_age_s`. Raises as `find_topics`."""
        now = self._clock()
        if now - self._read_at <= max_age_s:
            return
        found = await find_topics(self._settings, self._reader, self.log) if self._is_new else await self._follow()
        await self._add(found)
        self._is_new = False
        while found:  # further ones may follow
            found = await self._follow()
            await self._add(found)
        self._read_at = now

    async def partitions_before_raise(self) -> Collection[int]:
        """Return the partitions of all contests whose configuration versions may be raised now."""
        await self.refresh(RAISE * self._settle_s)
        return self.log.numbers

    async def _follow(self) -> list[Topic]:
        """Return what `find_topics` does, without the list of all topics: it has all their partitions."""
        names = await self._presence.existing([self.log.name_from(self.log.end)])
        return await _topics_among(names, self._settings, self._reader, self.log)

    async def _add(self, found: list[Topic]) -> None:
        for topic in found:
            age_s = time.time() - await self._reader.begun_ms(topic.name, range(topic.partitions)) / 1000
            is_known = age_s >= self._settle_s + CLOCK_DIFFERENCE_S
            self._settles_at[topic.first] = self._clock() + (0 if is_known else self._settle_s)
            self.log.add([topic])
            logger.info("votes topic %s with %d partitions is in use", topic.name, topic.partitions)

    def for_new_contests(self) -> Topic:
        """Return the latest topic that every process has found.

        This process may have started just after a growth. But growths are further apart than a topic needs to
        settle, so only the latest topic can be new.
        """
        *earlier, latest = self.log.topics
        is_settled = self._settles_at.get(latest.first, float("-inf")) <= self._clock()
        return latest if is_settled or not earlier else earlier[-1]

    async def run(self) -> None:
        """Refresh until cancelled."""
        what, log = "the list of topics cannot be read", self.log.name
        await every(POLL * self._settle_s, lambda: (log,), lambda _: self.refresh(), what, logging.DEBUG)

    async def close(self) -> None:
        await self._presence.close()
