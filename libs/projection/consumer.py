"""One consumer-group membership, from joining the group until it leaves, fails or is stuck."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Final, NamedTuple, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError

from libs.concurrency.tasks import loop_time
from libs.contracts.log_records import Position
from libs.kafka.errors import LogChanged, LogShortened
from libs.kafka.reader import LogReader, as_record
from libs.kafka.settings import KafkaSettings
from libs.projection.consumer_health import ConsumerHealth
from libs.projection.log_identity import LogIdentities, confirmed_start
from libs.projection.partition_worker import FoldTraces, PartitionWorker
from libs.projection.projection_interface import Projection
from libs.projection.settings import Pace, ProjectorSettings
from libs.projection.view_checks import FreshnessChecker, compare_views
from libs.tally.errors import LogUnavailable
from libs.telemetry.tracing import Tracing

JOIN_S = 60.0
DRAIN_S = 2.0
"""Seconds that a stopping projector continues to fold fetched records; nothing depends on it."""
MANY_PARTITIONS: Final = 32
DENSE_RECORDS: Final = 8
LONGEST: Final = 4
"""A batch of so many partitions is gathered up to so many times as long, until each has so many records."""

logger = logging.getLogger(__name__)

Records = tuple[ConsumerRecord[bytes, bytes], ...]


class Consumer(Protocol):
    """A member of a group; it hands the records that it fetches to `ConsumerSession.handle`."""

    @property
    def client(self) -> AIOKafkaConsumer | None:
        """Return aiokafka's consumer, once it was started."""

    async def start(self) -> None: ...
    async def stop(self) -> None: ...


class LogClients(NamedTuple):
    """Clients of the log for one session."""

    reader: LogReader
    consumer: Consumer


@dataclass(frozen=True, slots=True)
class Membership:
    """Configuration of a session: projection and group; `connect(session)` creates its clients."""

    projection: Projection
    kafka: KafkaSettings
    settings: ProjectorSettings
    pace: Pace
    group: str
    connect: "Connect"
    tracing: Tracing | None = None


Connect = Callable[["ConsumerSession"], LogClients]


class ConsumerSession(ConsumerRebalanceListener):  # type: ignore[misc]
    """Runs one `PartitionWorker` per assigned partition, fed by the consumer's batches of several partitions.

    So a stalled partition delays no other. The handler raises nothing, and `run` ends when the consumer delivers
    nothing although the log has more records.
    """

    def __init__(self, membership: Membership) -> None:
        self.folds: dict[int, PartitionWorker] = {}
        self.membership = membership
        [self.topic] = membership.projection.topic.topics
        self._reader, self._consumer = membership.connect(self)
        self._origins = LogIdentities(self._reader, self.topic)
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closing = False
        self._gathering = Gathering(membership.pace)
        self.watch = ConsumerHealth(
            self.topic, self._reader, self._origins, membership.projection, membership.settings
        )
        self._starting: asyncio.Task[None] | None = None
        self._checks: list[asyncio.Task[None]] = []

    async def run(self) -> None:
        """Join, then monitor the consumer. Ends only by raising: `LogChanged`, or the reason to restart."""
        if (fresh := self.membership.projection.fresh) is not None:
            freshness = FreshnessChecker(self.topic, fresh, self._reader, self.folds)
            self._checks.append(asyncio.create_task(freshness.run()))
        self._checks.append(asyncio.create_task(compare_views(self.membership.projection.live, self.folds)))
        self._starting = asyncio.create_task(self._consumer.start())
        await asyncio.wait({self._starting, self._failure}, timeout=JOIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._starting.done():
            self._starting.result()
        while True:
            await asyncio.wait(
                {self._failure}, timeout=self.membership.settings.projector_check_interval_ms / 1000
            )
            if self._failure.done():
                self._failure.result()
            await self.watch.check(self._consumer.client, self.folds)

    async def close(self, *, drain: bool) -> None:
        """Fold the fetched records (with `drain`), then leave the group."""
        self._closing = True
        self._room.set()
        if drain and self.folds:
            await asyncio.wait(
                [asyncio.create_task(fold.drained()) for fold in self.folds.values()], timeout=DRAIN_S
            )
            await self.watch.commit(self._consumer.client, self.folds)
        self._drop(frozenset(self.folds))
        for check in self._checks:
            check.cancel()
        if self._checks:
            await asyncio.wait(self._checks)
        if self._starting is not None and not self._starting.done():
            self._starting.cancel()
            await asyncio.wait([self._starting])
        if self._failure.done():
            self._failure.exception()
        try:
            await self._consumer.stop()
        except Exception:
            logger.exception("%s: leaving the group failed", self.membership.group)
        await self._reader.close()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Seek and pause the partitions: without a position aiokafka would fetch a committed offset, and fail."""
        consumer = self._consumer.client
        assert consumer is not None
        for tp in sorted(assigned):
            consumer.seek(tp, 0)
            consumer.pause(tp)
            self._begin(self._number(tp))
        self.watch.unassigned_since = None

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> None:
        """Stop the workers; the next owner folds from the view's position, so a pending call does no harm."""
        if revoked:
            self.watch.unassigned_since = time.monotonic()
            self._drop(frozenset(map(self._number, revoked)))

    def seek(self, partition: int, offset: int) -> None:
        self._steer(lambda consumer, tp: consumer.seek(tp, offset), partition)

    def pause(self, partition: int) -> None:
        self._steer(lambda consumer, tp: consumer.pause(tp), partition)

    def resume(self, partition: int) -> None:
        self._steer(lambda consumer, tp: consumer.resume(tp), partition)

    async def handle(self, batch: Records) -> None:
        """Queue fetched records of any partitions; wait for room, and until the next poll is due."""
        partitions = 0
        try:
            for partition, grouped in groupby(batch, key=attrgetter("partition")):
                partitions += 1
                fold = self.folds.get(partition + self.topic.first)
                if fold is not None:
                    records = list(grouped)
                    if fold.traces is not None:
                        fold.traces.note(records)
                    fold.offer([as_record(record) for record in records])
        except LogChanged as error:
            self._fail(error)
        except Exception:
            # Records lost here appear as an offset gap before the next batch, and are fetched again.
            logger.exception("%s: a batch was not delivered to its workers", self.membership.group)
        while self._queued() >= self.membership.settings.projector_max_queued_records and not self._closing:
            self._room.clear()
            await self._room.wait()
        if wait_ms := self._gathering.wait_ms(len(batch), partitions):
            await asyncio.sleep(wait_ms / 1000)

    def _queued(self) -> int:
        """Return the number of queued records, without stalled workers, which are paused and delay no other."""
        return sum(fold.queued for fold in self.folds.values() if fold.stalled_since is None)

    def _begin(self, partition: int) -> None:
        tracing = self.membership.tracing
        traces = None if tracing is None else FoldTraces(tracing, self.topic.name, partition)
        fold = PartitionWorker(self.membership.projection, partition, self, self._place, self._room.set, traces)
        self.folds[partition] = fold
        task = self._tasks[partition] = asyncio.create_task(fold.run())
        task.add_done_callback(self._ended)

    def _drop(self, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self.folds.pop(partition, None)
            if (task := self._tasks.pop(partition, None)) is not None:
                task.cancel()
        self._room.set()

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _place(self, partition: int) -> Position:
        """Return where to fold from; a view that has records which the log lost begins again.

        Raises `LogChanged` if this is another log, and what the worker retries.
        """
        projection = self.membership.projection
        stored = await projection.position(partition)
        witness = await projection.witness(partition)
        origin = await self._origins.of(partition)
        try:
            return await confirmed_start(self._reader, self.topic, partition, origin, stored, witness)
        except LogShortened as lost:
            assert stored is not None
            await begin_again(projection, partition, stored, lost)
            raise LogUnavailable(lost.message) from lost

    def _number(self, tp: TopicPartition) -> int:
        number: int = tp.partition + self.topic.first
        return number

    def _steer(self, step: Callable[[AIOKafkaConsumer, TopicPartition], None], partition: int) -> None:
        consumer = self._consumer.client
        try:
            if consumer is not None:
                step(consumer, TopicPartition(*self.topic.place(self.topic.name, partition)))
        except IllegalStateError:
            """The partition was revoked meanwhile; its worker is about to be stopped."""


async def begin_again(projection: Projection, partition: int, stored: Position, lost: LogShortened) -> None:
    """Let a view begin again that has records which the log lost; what it had stays readable, to name them."""
    if await projection.begin_again(partition, stored, lost.first):
        where = {"topic": projection.topic.name, "partition": partition, "offset": lost.first}
        said = "%s: %d records are lost, `tally lost list` names them; the view begins again"
        logger.critical(said, lost.message, stored.offset - lost.first, extra=where)


class Gathering:
    """Chooses the wait between two polls, in which records are gathered, by the rate of records.

    The size of one batch does not show it: without a wait batches are small, and with one large, at the same rate.
    """

    def __init__(self, pace: Pace, clock: Callable[[], float] = loop_time) -> None:
        self._pace = pace
        self._clock = clock
        self._former_ms = 0.0
        self._since = -1.0
        self._recent = 0

    def wait_ms(self, records: int, partitions: int) -> float:
        """Return the wait after a batch of so many records and partitions: longer if many partitions have few."""
        self._former_ms = self._wait_ms(records, partitions)
        return self._former_ms

    def _wait_ms(self, records: int, partitions: int) -> float:
        pace, now = self._pace, self._clock()
        if now - self._since > pace.gather_ms / 1000:
            self._since, self._recent = now, 0
        self._recent += records
        if self._recent < pace.busy_records or records >= pace.max_records:
            return 0.0
        if partitions < MANY_PARTITIONS:
            return pace.gather_ms
        enough_ms = max(self._former_ms, pace.gather_ms) * DENSE_RECORDS * partitions / records
        return min(max(enough_ms, pace.gather_ms), LONGEST * pace.gather_ms)
