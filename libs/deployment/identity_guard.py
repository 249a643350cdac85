"""Guard of a process: it uses only the log and the object store of its deployment, until that loses records."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, Self

from libs.concurrency.tasks import end_tasks
from libs.contracts.topics import Log, VotesLog, catalogue_topic, topics_of
from libs.deployment.identity import examine_deployment
from libs.deployment.votes_topics import VotesTopics
from libs.kafka.errors import LogChanged, TopicMissing
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import Examination, Sample, wrong_partitions
from libs.storage.object_store import StorageUnavailable, Store
from libs.tally.errors import LogUnavailable, TallyError
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.client import Valkey
from libs.views.valkey.partition_reads import Mark, PartitionReads
from libs.views.votes.vote_views import VoteViews

CHECK_S: Final = 10.0
RETRY_S: Final = 0.5
"""Interval of the checks while a problem exists or a server is unavailable."""
READ_IN_TURN: Final = 64
"""First records of a topic that a check reads while there is no problem: those of more partitions in turn. A topic
that was recreated has others in each."""
FIRST_CHECK_S: Final = 5.0
"""Maximum wait of a start for the first check; then the checks continue in the background."""

_NOT_CHECKED: Final = LogUnavailable("The service is starting; retry shortly.", retry_after_s=1)

logger = logging.getLogger(__name__)


class DeploymentGuard:
    """Checks topics, log ids and the object store periodically while `watching`.

    Until a check has passed, nothing may be appended. While the last one found a problem, nothing may be served.
    An unavailable server is no problem: the previous result stays valid.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        reader: LogReader,
        votes: VotesLog,
        store: Store,
        valkey: Valkey,
        check_s: float = CHECK_S,
    ) -> None:
        """Configure a guard; `check_s` is the interval of the checks without a problem (seconds).

        While it watches, it adds the topics that the log of the `votes` grows by.
        """
        self._check_s = check_s
        self._settings = settings
        self._votes = votes
        self._store = store
        namespace = votes.namespace
        self._topics = {topic.name: topic for topic in topics_of(namespace, votes.begun_with)}
        self.topics = VotesTopics(settings, votes, reader)
        self._live: list[tuple[Log, PartitionReads]] = [
            (votes, VoteViews(valkey, namespace, votes).live),
            (catalogue_topic(namespace), CatalogueViews(valkey, namespace).live),
        ]
        self._log_ids: dict[tuple[str, int], str] = {}
        """Log ids of the first check that passed."""
        self._losses: dict[tuple[str, int], int] = {}
        """How often views had begun again, as first seen."""
        self._verified = False
        self._problem: TallyError | None = None
        self._unavailable: TallyError | None = _NOT_CHECKED
        self._degraded: TallyError | None = None
        self._shortened: LogChanged | None = None
        self._suspected = False
        self._check_now = asyncio.Event()
        self._turn = 0

    def refusal(self) -> TallyError | None:
        """Return the error for clients while nothing may be served, else None."""
        if self._problem is None:
            return None
        if self._is_not_begun:
            return LogUnavailable(_NOT_CHECKED.message, retry_after_s=1, cause=self._problem)
        message = "The service's configuration does not match its stored data; an operator has to correct it."
        return LogUnavailable(message, retry_after_s=5, cause=self._problem)

    def append_refusal(self) -> TallyError | None:
        """Return the error for clients while nothing may be appended, else None."""
        if self._problem is not None or self._verified:
            return self.refusal()
        return LogUnavailable(_NOT_CHECKED.message, retry_after_s=1, cause=self._unavailable)

    def check_partitions(self, topic: str, found: int) -> None:
        """Check the producer's metadata before each append. Raises `WrongTopic`."""
        known = self._topics.get(topic) or next((each for each in self._votes.later if each.name == topic), None)
        if known is not None and found != known.partitions:
            self._check_now.set()
            raise wrong_partitions(known, found)

    def report_shortened(self, topic: str, partition: int) -> None:
        """Record for good that Kafka acknowledged a record at an offset that an earlier record had."""
        self._shortened = LogChanged(
            f"{topic}/{partition} was recreated or truncated: Kafka assigned the same offsets again", topic=topic
        )
        self._check_now.set()

    async def check(self) -> None:
        """Raise the current problem, or why no check has passed yet; for health checks.

        A server that is unavailable later is the subject of other checks.
        """
        if self._problem is not None:
            raise self._problem
        if self._unavailable is not None and not self._verified:
            raise self._unavailable

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[Self]:
        """Check for as long as the context is open; it opens after the first check or `FIRST_CHECK_S`."""
        first = asyncio.create_task(self._run_check())
        await asyncio.wait([first], timeout=FIRST_CHECK_S)
        tasks = [asyncio.create_task(self._watch(first)), asyncio.create_task(self.topics.run())]
        try:
            yield self
        finally:
            await end_tasks(tasks)
            await self.topics.close()

    async def _watch(self, first: "asyncio.Task[None]") -> None:
        await first
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._check_now.wait(), self._check_s if self._is_ok else RETRY_S)
            self._check_now.clear()
            await self._run_check()

    @property
    def _is_not_begun(self) -> bool:
        """Return whether the topics have been missing since this process started."""
        return not self._verified and isinstance(self._problem, TopicMissing)

    @property
    def _is_ok(self) -> bool:
        return self._problem is None and self._unavailable is None and not self._suspected

    def _next_sample(self) -> Sample:
        """Return the partitions whose first records the next check reads: all unless the last one has passed."""
        if not (self._is_ok and self._verified):
            return range
        self._turn += 1
        turn = self._turn

        def of_turn(partitions: int) -> Sequence[int]:
            turns = -(-partitions // READ_IN_TURN)
            return range(turn % turns, partitions, turns)

        return of_turn

    async def _run_check(self) -> None:
        try:
            await self.topics.refresh()
            found = await examine_deployment(self._settings, self._votes, self._store, self._next_sample())
            problems = found.problems + [error async for error in self._changed(found)]
        except (LogUnavailable, StorageUnavailable) as error:
            self._set_unavailable(error)
            return
        except TallyError as error:
            problems = [error]
        except Exception:
            logger.exception("the check of the log failed")
            return
        temporary = [problem for problem in problems if isinstance(problem, LogUnavailable)]
        self._update([problem for problem in problems if problem not in temporary])
        self._set_unavailable(None)
        self._set_degraded(temporary[0] if temporary else None)
        if self._verified and not self._log_ids:
            self._log_ids = _ids(found)

    def _update(self, problems: Sequence[TallyError]) -> None:
        """Set the problem; after a passed check only the second in a row: a starting broker may list no topics."""
        if not problems:
            if self._problem is not None:
                logger.warning("the check of the log passes again")
            self._problem, self._suspected, self._verified = None, False, True
        elif self._verified and self._problem is None and not self._suspected:
            self._suspected = True
        else:
            if self._problem is None or self._problem.message != problems[0].message:
                reasons = "; ".join(problem.message for problem in problems)
                if not self._verified and all(isinstance(problem, TopicMissing) for problem in problems):
                    logger.warning("waiting: %s: run `tally topics create`", reasons)
                else:
                    logger.critical("nothing is served: %s", reasons)
            self._problem = problems[0]

    def _set_degraded(self, error: TallyError | None) -> None:
        """Log a problem of some partitions: they refuse their own records, and the process serves the others."""
        if error is not None and self._degraded is None:
            logger.warning("%s", error)
        self._degraded = error

    def _set_unavailable(self, error: TallyError | None) -> None:
        if error is not None and (self._unavailable is None or self._unavailable is _NOT_CHECKED):
            logger.warning("waiting: %s", error)
        self._unavailable = error

    async def _changed(self, found: Examination) -> AsyncIterator[LogChanged]:
        """Yield logs that differ from those of the first check, or from those that the views were folded from."""
        if self._shortened is not None:
            yield self._shortened
        ids = _ids(found)
        for (name, partition), known in self._log_ids.items():
            if ids.get((name, partition), known) != known:
                yield LogChanged(f"{name}/{partition} was recreated while this process ran", topic=name)
        for log, live in self._live:
            for group in live.groups(log.numbers):
                for partition, mark in (await live.marks(group)).items():
                    if not isinstance(mark, Mark):
                        continue
                    at, topic = mark.position, log.topic_at(partition)
                    place = topic.place(topic.name, partition)
                    if self._losses.setdefault(place, mark.losses) != mark.losses:
                        end_process(f"{topic.name}/{partition} lost records, which this process may remember")
                    if at is not None and ids.get(place, at.log_id) != at.log_id:
                        why = f"{topic.name}/{partition} was recreated: the views were folded from another log"
                        yield LogChanged(why, topic=topic.name)


def end_process(why: str) -> None:
    """Let this process stop as by SIGTERM; what started it starts it again, with an empty memory."""
    logger.critical("%s: it ends, to be started again", why)
    os.kill(os.getpid(), signal.SIGTERM)


def _ids(found: Examination) -> dict[tuple[str, int], str]:
    return {
        (topic, partition): first.log_id
        for topic, partitions in found.first_records.items()
        for partition, first in partitions.items()
    }
