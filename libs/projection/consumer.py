"""One consumer-group membership, from joining the group until it leaves, fails or is stuck."""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, groupby
from operator import attrgetter
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.errors import IllegalStateError
from faststream import AckPolicy
from faststream.kafka import KafkaBroker, KafkaMessage
from faststream.kafka.message import FAKE_CONSUMER

from libs.contracts.log_records import Position
from libs.kafka.errors import LogChanged
from libs.kafka.reader import LogReader, as_record
from libs.kafka.settings import KafkaSettings
from libs.projection.broker_security import broker_security
from libs.projection.consumer_health import ConsumerHealth
from libs.projection.freshness_checker import FreshnessChecker
from libs.projection.gathering import Gathering
from libs.projection.log_identity import LogIdentities, start_of
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import Projection
from libs.projection.settings import Pace, ProjectorSettings, fetch_wait_ms
from libs.projection.tracing import FoldTraces
from libs.projection.view_checker import ViewChecker
from libs.telemetry.tracing import Tracing

JOIN_S = 60.0
METADATA_MS = 5_000
"""`metadata_max_age_ms`: a deleted or recreated topic is noticed within this time."""
POLL_MS = 1_000
"""Longest wait of a poll, in milliseconds: errors of the consumer group are raised between two polls."""
DRAIN_S = 2.0
"""Seconds that a stopping projector continues to fold fetched records; nothing depends on it."""

logger = logging.getLogger(__name__)

Records = tuple[ConsumerRecord[bytes, bytes], ...]
Hook = Callable[[frozenset[int]], None]


@dataclass(frozen=True, slots=True)
class Membership:
    """Configuration of a session: projection, group, and callbacks for its partitions."""

    projection: Projection
    kafka: KafkaSettings
    settings: ProjectorSettings
    pace: Pace
    group: str
    on_assigned: Hook
    on_revoked: Hook
    tracing: Tracing | None = None


class ConsumerSession(ConsumerRebalanceListener):  # type: ignore[misc]
    """Runs one `PartitionWorker` per assigned partition, fed by FastStream's batches of several partitions.

    So a stalled partition delays no other. FastStream swallows a handler's exceptions, and retries a broken
    consumer for ever: so the handler raises nothing, and `run` ends when the consumer delivers nothing although
    the log has more records.
    """

    def __init__(self, membership: Membership) -> None:
        self.folds: dict[int, PartitionWorker] = {}
        self._membership = membership
        [self._topic] = membership.projection.topic.topics
        self._reader = LogReader(membership.kafka, place=self._topic.place)
        self._origins = LogIdentities(self._reader, self._topic)
        self._failure: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._room = asyncio.Event()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._closing = False
        self._gathering = Gathering(membership.pace)
        self.watch = ConsumerHealth(self._topic, self._reader, self._origins, membership.settings)
        self._starting: asyncio.Task[None] | None = None
        self._checks: list[asyncio.Task[None]] = []
        self._broker, self._subscriber = self._build()

    async def run(self) -> None:
        """Join, then monitor the consumer. Ends only by raising: `LogChanged`, or the reason to restart."""
        if (fresh := self._membership.projection.fresh) is not None:
            freshness = FreshnessChecker(self._topic, fresh, self._reader, self.folds)
            self._checks.append(asyncio.create_task(freshness.run()))
        views = ViewChecker(self._membership.projection.live, self.folds)
        self._checks.append(asyncio.create_task(views.run()))
        self._starting = asyncio.create_task(self._broker.start())
        await asyncio.wait({self._starting, self._failure}, timeout=JOIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._starting.done():
            self._starting.result()
        while True:
            await asyncio.wait(
                {self._failure}, timeout=self._membership.settings.projector_check_interval_ms / 1000
            )
            if self._failure.done():
                self._failure.result()
            await self.watch.check(self._consumer(), self.folds)

    async def close(self, *, drain: bool) -> None:
        """Fold the fetched records (with `drain`), then leave the group."""
        self._closing = True
        self._room.set()
        if drain and self.folds:
            await asyncio.wait(
                [asyncio.create_task(fold.drained()) for fold in self.folds.values()], timeout=DRAIN_S
            )
            await self.watch.commit(self._consumer(), self.folds)
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
            await self._broker.stop()
        except Exception:
            logger.exception("%s: leaving the group failed", self._membership.group)
        await self._reader.close()

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        """Seek and pause the partitions: without a position aiokafka would fetch a committed offset, and fail."""
        consumer = self._consumer()
        assert consumer is not None
        for tp in assigned:
            consumer.seek(tp, 0)
            consumer.pause(tp)
            self._begin(self._number(tp))
        self.watch.unassigned_since = None
        self._membership.on_assigned(frozenset(map(self._number, assigned)))

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

    def _build(self) -> tuple[KafkaBroker, Any]:
        membership = self._membership
        wait_ms = fetch_wait_ms(self._topic.partitions, membership.kafka.kafka_request_timeout_ms)
        broker = KafkaBroker(
            membership.kafka.kafka_bootstrap_servers.split(","),
            request_timeout_ms=membership.kafka.kafka_request_timeout_ms,
            security=broker_security(membership.kafka),
            metadata_max_age_ms=METADATA_MS,
            consumer_only=True,
            allow_auto_create_topics=False,
            apply_types=False,
            logger=None,
            parser=_parse,
            decoder=_decode,
        )
        subscriber = broker.subscriber(
            self._topic.name,
            group_id=membership.group,
            client_rack=membership.kafka.kafka_client_rack or None,
            batch=True,
            ack_policy=AckPolicy.MANUAL,
            auto_offset_reset="none",
            listener=self,
            session_timeout_ms=membership.settings.projector_session_timeout_ms,
            fetch_max_wait_ms=wait_ms,
            # aiokafka goes through all partitions that often, besides whenever something happens
            consumer_timeout_ms=wait_ms,
            heartbeat_interval_ms=membership.settings.projector_session_timeout_ms // 4,
            rebalance_timeout_ms=2 * membership.settings.projector_session_timeout_ms,
        )
        subscriber(self._handle)
        subscriber.get_msg = self._poll  # type: ignore[method-assign]
        return broker, subscriber

    async def _poll(self, consumer: AIOKafkaConsumer) -> Records:
        """Return the next records. FastStream's own poll sleeps after an empty answer, so it must be short."""
        records = await consumer.getmany(timeout_ms=POLL_MS, max_records=self._membership.pace.max_records)
        return tuple(chain.from_iterable(records.values()))

    async def _handle(self, batch: Records) -> None:
        partitions = 0
        try:
            for partition, grouped in groupby(batch, key=attrgetter("partition")):
                partitions += 1
                fold = self.folds.get(partition + self._topic.first)
                if fold is not None:
                    records = list(grouped)
                    if fold.traces is not None:
                        fold.traces.note(records)
                    fold.offer([as_record(record) for record in records])
        except LogChanged as error:
            self._fail(error)
        except Exception:
            # Records lost here appear as an offset gap before the next batch, and are fetched again.
            logger.exception("%s: a batch was not delivered to its workers", self._membership.group)
        while self._queued() >= self._membership.settings.projector_max_queued_records and not self._closing:
            self._room.clear()
            await self._room.wait()
        if wait_ms := self._gathering.wait_ms(len(batch), partitions):
            await asyncio.sleep(wait_ms / 1000)

    def _queued(self) -> int:
        """Return the number of queued records, without stalled workers, which are paused and delay no other."""
        return sum(fold.queued for fold in self.folds.values() if fold.stalled_since is None)

    def _begin(self, partition: int) -> None:
        tracing = self._membership.tracing
        traces = None if tracing is None else FoldTraces(tracing, self._topic.name, partition)
        fold = PartitionWorker(self._membership.projection, partition, self, self._place, self._room.set, traces)
        self.folds[partition] = fold
        task = self._tasks[partition] = asyncio.create_task(fold.run())
        task.add_done_callback(self._ended)

    def _drop(self, partitions: frozenset[int]) -> None:
        for partition in partitions:
            self.folds.pop(partition, None)
            if (task := self._tasks.pop(partition, None)) is not None:
                task.cancel()
        self._room.set()
        self._membership.on_revoked(partitions)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        if not self._failure.done():
            self._failure.set_exception(error)

    async def _place(self, partition: int) -> Position:
        origin = await self._origins.of(partition)
        stored = await self._membership.projection.position(partition)
        return start_of(self._topic, partition, origin, stored)

    def _number(self, tp: TopicPartition) -> int:
        number: int = tp.partition + self._topic.first
        return number

    def _consumer(self) -> AIOKafkaConsumer | None:
        return self._subscriber.consumer

    def _steer(self, step: Callable[[AIOKafkaConsumer, TopicPartition], None], partition: int) -> None:
        consumer = self._consumer()
        try:
            if consumer is not None:
                step(consumer, TopicPartition(*self._topic.place(self._topic.name, partition)))
        except IllegalStateError:
            """The partition was revoked meanwhile; its worker is about to be stopped."""


async def _parse(batch: Records) -> KafkaMessage:
    """Pass records on unchanged: FastStream's own parser builds a message and a dict for each.

    FastStream runs a parser or decoder that is no coroutine in a thread.
    """
    return KafkaMessage(body=b"", raw_message=batch, consumer=FAKE_CONSUMER)


async def _decode(message: KafkaMessage) -> Any:
    return message.raw_message
