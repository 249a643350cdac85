"""Health checks of a group's consumer: it is alive, makes progress, and reads the same log."""

import logging
import time
from collections.abc import Mapping

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from libs.contracts.topics import Topic
from libs.kafka.cancellation import call
from libs.kafka.reader import LogReader
from libs.projection.log_identity import LogIdentities, confirmed_start
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import Projection
from libs.projection.settings import ProjectorSettings
from libs.tally.errors import LogUnavailable, ViewsUnavailable

STEP_S = 2.0
"""Timeout in seconds of a request to the group; the next check repeats it."""
ERRORS_TOLERATED = 3
IDENTITY_S = 30.0
"""Seconds between checks of the log ids of a running fold."""

logger = logging.getLogger(__name__)


class ConsumerHealth:
    """Runs a session's checks, and keeps their state."""

    def __init__(
        self,
        topic: Topic,
        reader: LogReader,
        origins: LogIdentities,
        projection: Projection,
        settings: ProjectorSettings,
    ) -> None:
        self.ends: dict[int, int] = {}
        """End offset of each assigned partition at the last check."""
        self.unassigned_since: float | None = time.monotonic()
        self._topic = topic
        self._reader = reader
        self._origins = origins
        self._projection = projection
        self._patience_s = settings.projector_stuck_after_ms / 1000
        self._errors = 0
        self._quiet: dict[int, tuple[int, float]] = {}
        """Offset and start time of each lagging partition's current standstill."""
        self._identified_at = time.monotonic()
        self._committed: dict[int, int] = {}

    async def check(self, consumer: AIOKafkaConsumer | None, folds: Mapping[int, PartitionWorker]) -> None:
        """Raise the problem found: `LogChanged`, or what requires a restart: `KafkaError`, `LogUnavailable` and
        `LogShortened`."""
        await self._check_consumer(consumer)
        try:
            self.ends = await self._reader.end_offsets(self._topic.name, list(folds))
            await self._check_identity(folds)
        except (LogUnavailable, ViewsUnavailable):
            # A server is unavailable; the consumer is not stuck.
            self._quiet.clear()
            return
        self._check_progress(folds, time.monotonic())
        await self.commit(consumer, folds)

    async def commit(self, consumer: AIOKafkaConsumer | None, folds: Mapping[int, PartitionWorker]) -> None:
        """Commit the folds' offsets, for tools that show lag. Nothing here reads them, so it may fail."""
        now = {fold.partition: fold.position.offset for fold in folds.values() if fold.position is not None}
        news = {
            TopicPartition(*self._topic.place(self._topic.name, partition)): offset
            for partition, offset in now.items()
            if self._committed.get(partition) != offset
        }
        if consumer is None or not news:
            return
        try:
            await call(consumer.commit(news), STEP_S)
        except (KafkaError, TimeoutError) as error:
            logger.debug("%s: offsets were not committed: %r", self._topic.name, error)
        else:
            self._committed = now

    async def _check_consumer(self, consumer: AIOKafkaConsumer | None) -> None:
        """Raise the error of a dead coordinator. Only aiokafka's `getmany` raises it: call that for no records."""
        if consumer is None:
            return
        try:
            await call(consumer.getmany(TopicPartition(self._topic.name, -1)), STEP_S)
        except TimeoutError:
            """A rebalance is in progress."""
        except KafkaError:
            self._errors += 1
            if self._errors >= ERRORS_TOLERATED:
                raise
        else:
            self._errors = 0

    async def _check_identity(self, folds: Mapping[int, PartitionWorker]) -> None:
        positions = {fold.partition: fold.position for fold in folds.values() if fold.position is not None}
        beyond = any(self.ends.get(partition, 0) < position.offset for partition, position in positions.items())
        if beyond or time.monotonic() - self._identified_at > IDENTITY_S:
            origins = await self._origins.of_all(positions)
            for partition, position in positions.items():
                origin = origins[partition]
                witness = await self._projection.witness(partition)
                await confirmed_start(self._reader, self._topic, partition, origin, position, witness)
            self._identified_at = time.monotonic()

    def _check_progress(self, folds: Mapping[int, PartitionWorker], now: float) -> None:
        if self.unassigned_since is not None and now - self.unassigned_since > self._patience_s:
            raise LogUnavailable(f"the group assigned no partitions for {self._patience_s:.0f} s")
        quiet: dict[int, tuple[int, float]] = {}
        for partition, fold in folds.items():
            if fold.idle and fold.position is not None and self.ends.get(partition, 0) > fold.position.offset:
                seen = self._quiet.get(partition)
                offset = fold.position.offset
                quiet[partition] = seen if seen is not None and seen[0] == offset else (offset, now)
                if now - quiet[partition][1] > self._patience_s:
                    raise LogUnavailable(
                        f"{self._topic.name}/{partition} delivered no records for {self._patience_s:.0f} s"
                    )
        self._quiet = quiet
