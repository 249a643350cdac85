"""Appends records to the log: group commit per partition, with definite or explicitly unknown outcomes."""

import asyncio
import contextlib
import copy
import logging
import math
import time
from collections import deque
from collections.abc import Collection, Sequence
from contextvars import Context
from typing import Protocol

from aiokafka.errors import KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata, TopicPartition

from libs.contracts.log_records import Appended
from libs.contracts.topics import Placement, in_topic
from libs.kafka.errors import NO_ANSWER
from libs.kafka.partition_queues import Outcome, Part, PartitionQueue, Record, RecordGroup, RequestPace
from libs.kafka.producers import HANGING_S, SEQUENCE_ROOM, Producers, StartedProducer
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import AppendUnknown, LogUnavailable, NotAppended, TallyError
from libs.telemetry.metrics import APPENDED_RECORDS
from libs.telemetry.tracing import NO_HEADERS, Tracing

SWEEP_S = 0.02
"""Interval between checks of deadlines; a caller may get its timeout this much late."""
STOP_S = 5.0
"""Seconds to deliver accepted records at the end: the default deadline of an append, so all have an outcome."""
_TOO_LATE = "The record was not written in time."
_STOPPING = "the process is stopping"

logger = logging.getLogger(__name__)


class LogGuard(Protocol):
    """Checks that the log is the one that this process is configured for."""

    def append_refusal(self) -> TallyError | None:
        """Return the error that forbids appends now, or None."""

    def check_partitions(self, topic: str, found: int) -> None:
        """Raise if a topic's number of partitions differs from the one that keys are partitioned by."""

    def report_shortened(self, topic: str, partition: int) -> None:
        """Report a truncated partition: a record was acknowledged at an offset that an earlier one had."""


class LogWriter:
    """Appends records; each is acknowledged by all in-sync replicas before its caller gets the result.

    While a request to a broker is in flight, later records for its partitions are queued, and are sent as one
    request, a batch for each partition (`RequestPace`). Records of a partition keep the order of their appends,
    except after an unknown outcome: that record may still be appended after later ones.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        tracing: Tracing | None = None,
        guard: LogGuard | None = None,
        place: Placement = in_topic,
    ) -> None:
        """With `tracing`, records carry the trace context of their submission. `guard` may refuse them.

        `place` maps the partitions of a log that has several topics.
        """
        self._guard = guard
        self._place = place
        self._settings = settings
        self._tracing = tracing
        self._deadline_s = settings.produce_deadline_ms / 1000
        self._queues: dict[tuple[str, int], PartitionQueue] = {}
        self._paces: dict[int | str, RequestPace[PartitionQueue]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        self._held = 0
        self._stopping = False
        self._emptied = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None
        self._producers = Producers(settings, self._wake_all)

    @property
    def held(self) -> int:
        """Number of accepted records without an outcome."""
        return self._held

    @property
    def ready(self) -> bool:
        """True if a producer is connected."""
        return self._producers.link is not None

    async def check(self) -> None:
        """Check for health: raises `LogUnavailable` unless Kafka responds now."""
        link = self._producers.link
        if link is None:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause="no connection to Kafka")
        try:
            await link.check()
        except KafkaError as error:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error

    @property
    def retired(self) -> int:
        """Number of replaced producers that still deliver their accepted records."""
        return self._producers.retired

    async def start(self) -> None:
        """Start to connect. Returns at once and never fails: until Kafka responds, appends raise `NotAppended`."""
        self._sweeper = asyncio.create_task(self._sweep())
        self._producers.connect()

    async def stop(self, timeout_s: float = STOP_S) -> None:
        """Refuse new records, deliver accepted ones, and fail the rest after `timeout_s` with true outcomes."""
        self._stopping = True
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_s
        if self._held:
            self._emptied.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._emptied.wait()
        if self._sweeper is not None:
            self._sweeper.cancel()
        for task in self._sending:
            task.cancel()
        for queue in self._queues.values():
            self._answer_flight(queue, _unknown(_STOPPING))
            self._refuse_all(queue, NotAppended(_STOPPING, retry_after_s=1))
        await self._producers.stop(max(0.1, end - loop.time()))

    async def append(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> Appended:
        """Append one record; `deadline_s` (default by setting) is the maximum time until the outcome.

        Raises `NotAppended` if the record certainly is not in the log, `AppendUnknown` if that is unknown.
        Cancelling a caller does not affect other records; its own may or may not be appended.
        """
        headers = NO_HEADERS if self._tracing is None else self._tracing.headers()
        [outcome] = await self._queue(topic, partition, [Record(value, key, headers)], deadline_s)
        if isinstance(outcome, LogUnavailable):
            raise outcome
        return outcome

    def append_group(
        self, topic: str, partition: int, records: Sequence[Record]
    ) -> "asyncio.Future[list[Outcome]]":
        """Append records in their order, if possible as one batch. Their outcomes are the answers of `append`."""
        return self._queue(topic, partition, records, None)

    def _queue(
        self, topic: str, partition: int, records: Sequence[Record], deadline_s: float | None
    ) -> "asyncio.Future[list[Outcome]]":
        answer: asyncio.Future[list[Outcome]] = asyncio.get_running_loop().create_future()
        refusal = self._refusal(len(records))
        if refusal is not None:
            APPENDED_RECORDS.labels(topic, "refused").inc(len(records))
            answer.set_result([copy.copy(refusal) for _ in records])
            return answer
        deadline = time.monotonic() + (self._deadline_s if deadline_s is None else deadline_s)
        queue = self._queues.get((topic, partition))
        if queue is None:
            queue = self._queues[topic, partition] = PartitionQueue(
                topic, partition, self._place(topic, partition)
            )
        group = RecordGroup(records, deadline, answer)
        for at, record in enumerate(records):
            if (size := len(record.value) + len(record.key or b"")) > self._settings.produce_max_record_bytes:
                queue.fail(group, at, 1, NotAppended(f"A record of {size} bytes is too large for the log."))
        if group.undecided:
            queue.earliest = min(queue.earliest, deadline)
            queue.groups.append(group)
            self._held += group.undecided
            if len(queue.groups) == 1:  # earlier ones have woken it
                self._wake(queue)
        return answer

    def _refusal(self, records: int) -> NotAppended | None:
        """Return the error for so many records that cannot be queued, or None."""
        if self._stopping:
            return NotAppended(_STOPPING, retry_after_s=1)
        if self._guard is not None and (refusal := self._guard.append_refusal()) is not None:
            return NotAppended(refusal.message, retry_after_s=refusal.retry_after_s, cause=refusal.cause)
        if self._producers.away is not None:
            return NotAppended(NO_ANSWER, retry_after_s=1, cause=self._producers.away)
        if self._held + records > self._settings.produce_max_queued_records:
            return NotAppended("Too many records are waiting to be written.", retry_after_s=1)
        return None

    def _wake_all(self) -> None:
        for queue in self._queues.values():
            self._wake(queue)

    def _wake(self, queue: PartitionQueue) -> None:
        """Send the queue's records with the next request to its broker, unless a batch is in flight."""
        link = self._producers.link
        if queue.flight or not queue.groups or link is None:
            return
        leader = link.producer.client.cluster.leader_for_partition(TopicPartition(*queue.place))
        # topics without metadata must not delay others
        broker = queue.place.topic if leader is None else leader
        pace = self._paces.get(broker)
        if pace is None:
            pace = self._paces[broker] = RequestPace(self._start_request, self._settings.produce_linger_ms / 1000)
        pace.add(queue)

    def _start_request(self, pace: RequestPace[PartitionQueue], queues: Sequence[PartitionQueue]) -> None:
        # it outlives the call that starts it, so it must not log under that request's id
        task = asyncio.get_running_loop().create_task(self._send_all(pace, queues), context=Context())
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    async def _send_all(self, pace: RequestPace[PartitionQueue], queues: Sequence[PartitionQueue]) -> None:
        request = pace.request
        found: dict[str, Collection[int]] = {}
        for queue in queues:
            if (link := self._producers.link) is None:
                return  # all queues are woken when there is one
            try:
                await self._send(queue, link, pace, request, found)
            except Exception as error:
                logger.exception("sending to %s/%d failed", queue.topic, queue.partition)
                self._answer_flight(queue, _unknown(repr(error)))
            if not queue.flight:
                pace.landed(request)
                self._wake(queue)

    async def _send(
        self,
        queue: PartitionQueue,
        link: StartedProducer,
        pace: RequestPace[PartitionQueue],
        request: int,
        found: dict[str, Collection[int]],
    ) -> None:
        """Send a batch of the queue's records; `found` has the partitions of the topics that were asked for."""
        producer = link.producer
        partitions = found.get(queue.place.topic)
        if partitions is None:
            try:
                # The only await before a batch is built: until then its records stay in our own queue.
                partitions = await link.partitions_of(queue.place.topic)
                if self._guard is not None:
                    self._guard.check_partitions(queue.place.topic, len(partitions))
            except Exception as error:
                self._refuse_all(queue, _refused(error))
                return
            found[queue.place.topic] = partitions
        if queue.place.partition not in partitions:
            self._refuse_all(
                queue,
                NotAppended(NO_ANSWER, retry_after_s=1, cause=f"{queue.topic} has no partition {queue.partition}"),
            )
            return
        if link is not self._producers.link or queue.flight:
            return
        batch = producer.create_batch()
        self._fill(queue, batch)
        if not queue.flight:
            return
        try:
            ack = await producer.send_batch(batch, queue.place.topic, partition=queue.place.partition)
        except Exception as error:
            # It accepted nothing, and never will again: its sender task has ended.
            self._producers.replace(link, f"{queue.topic}/{queue.partition}: {error!r}", always=True)
            self._answer_flight(queue, _refused(error))
            return
        queue.ack, queue.link, queue.sent_at = ack, link, time.monotonic()
        records = sum(part.count for part in queue.flight)
        link.records += records
        pace.records += records
        if link.records > SEQUENCE_ROOM:
            self._producers.replace(link, "sequence numbers exhausted")

        def land(ack: "asyncio.Future[RecordMetadata]") -> None:
            pace.landed(request)
            self._land(queue, link, ack)

        ack.add_done_callback(land)

    def _fill(self, queue: PartitionQueue, batch: BatchBuilder) -> None:
        """Move queued records into `batch` until it is full, dropping abandoned and expired groups."""
        now, now_ms = time.monotonic(), int(time.time() * 1000)
        while queue.groups:
            group = queue.groups[0]
            if group.answer.done() or group.deadline <= now:
                self._drop(queue, group, _TOO_LATE)
            elif not self._move(queue, group, batch, now_ms):
                break
            queue.groups.popleft()

    def _move(self, queue: PartitionQueue, group: RecordGroup, batch: BatchBuilder, now_ms: int) -> bool:
        """Move a group's records into `batch`. Return whether all fitted; the others follow in the next one."""
        first = group.at
        for at in range(first, len(group.records)):
            if group.outcomes[at] is not None:  # refused
                first = self._note_part(queue, group, first, at) + 1
            elif not _add(batch, now_ms, group.records[at]):
                group.at = self._note_part(queue, group, first, at)
                return False
        group.at = self._note_part(queue, group, first, len(group.records))
        return True

    def _note_part(self, queue: PartitionQueue, group: RecordGroup, first: int, end: int) -> int:
        if end > first:
            queue.flight.append(Part(group, first, end - first))
        return end

    def _land(self, queue: PartitionQueue, link: StartedProducer, ack: "asyncio.Future[RecordMetadata]") -> None:
        """Resolve the records of the batch in flight by its acknowledgement or error."""
        error = asyncio.CancelledError() if ack.cancelled() else ack.exception()
        if queue.ack is not ack:
            return  # given up before
        if error is not None:
            # The batch's sequence numbers are used up, so Kafka would refuse this producer's next batches.
            self._producers.replace(link, f"{queue.topic}/{queue.partition}: {error!r}", always=True)
            self._answer_flight(queue, _unknown(repr(error)))
        else:
            self._acknowledge(queue, ack.result())
        self._wake(queue)

    def _acknowledge(self, queue: PartitionQueue, landed: RecordMetadata) -> None:
        queue.seconds.observe(time.monotonic() - queue.sent_at)
        if self._guard is not None and landed.timestamp_type != 0:
            if landed.offset < queue.end:
                self._guard.report_shortened(queue.topic, queue.partition)
                self._answer_flight(queue, _unknown("the log was truncated or recreated"))
                return
            queue.end = landed.offset + sum(part.count for part in queue.flight)
        partition, offset, exact = queue.partition, landed.offset, landed.timestamp_type != 0
        for group, first, count in self._take_flight(queue):
            appended = [Appended(partition, at, exact) for at in range(offset, offset + count)]
            queue.acknowledged.inc(group.decide(first, appended))
            offset += count

    async def _sweep(self) -> None:
        """Fail expired records: queued ones definitely, those in flight with an unknown outcome.

        Refresh metadata.
        """
        while True:
            await asyncio.sleep(SWEEP_S)
            now = time.monotonic()
            if self._producers.link is not None:
                self._producers.link.refresh_metadata(now, hangs=self._hangs(now))
            for queue in self._queues.values() if self._held else ():
                if queue.earliest <= now:
                    self._expire(queue, now)
                if queue.ack is not None and queue.sent_at + self._deadline_s <= now:
                    self._give_up(queue, now)

    def _hangs(self, now: float) -> bool:
        """Return whether a batch has not been acknowledged for some time."""
        queues = self._queues.values() if self._held else ()
        return any(queue.ack is not None and queue.sent_at + HANGING_S <= now for queue in queues)

    def _give_up(self, queue: PartitionQueue, now: float) -> None:
        """Replace the producer of a batch that hangs, and send the next ones through another."""
        assert queue.link is not None
        if self._producers.replace(queue.link, f"{queue.topic}/{queue.partition} hangs"):
            self._answer_flight(queue, _unknown("no acknowledgement in time"))
            self._wake(queue)
        else:  # with too many retired producers, a new one would only hang like this one: keep waiting
            queue.sent_at = now

    def _expire(self, queue: PartitionQueue, now: float) -> None:
        live: deque[RecordGroup] = deque()
        for group in queue.groups:
            if group.answer.done() or group.deadline <= now:
                self._drop(queue, group, _TOO_LATE)
            else:
                live.append(group)
        queue.groups = live
        for group, first, count in queue.flight:
            if group.deadline <= now:
                queue.fail(group, first, count, _unknown("no acknowledgement in time"))
        flying = (part.group for part in queue.flight)
        queue.earliest = min(
            (group.deadline for group in (*live, *flying) if not group.answer.done()), default=math.inf
        )

    def _release(self, count: int) -> None:
        self._held -= count
        if not self._held:
            self._emptied.set()

    def _drop(self, queue: PartitionQueue, group: RecordGroup, why: str, cause: str | None = None) -> None:
        """Fail the records of a group that was removed from the queue and are in no batch."""
        self._release(group.queued)
        queue.fail(group, group.at, len(group.records) - group.at, NotAppended(why, retry_after_s=1, cause=cause))

    def _refuse_all(self, queue: PartitionQueue, refusal: NotAppended) -> None:
        """Fail the queued records, which never reached the producer; those in flight are not concerned."""
        while queue.groups:
            self._drop(queue, queue.groups.popleft(), refusal.message, refusal.cause)

    def _answer_flight(self, queue: PartitionQueue, error: LogUnavailable) -> None:
        for group, first, count in self._take_flight(queue):
            queue.fail(group, first, count, error)

    def _take_flight(self, queue: PartitionQueue) -> list[Part]:
        flight, queue.flight, queue.ack = queue.flight, [], None
        self._release(sum(part.count for part in flight))
        return flight


def _add(batch: BatchBuilder, now_ms: int, record: Record) -> bool:
    """Return whether the record fitted into the batch."""
    value, key, headers = record
    return batch.append(timestamp=now_ms, key=key, value=value, headers=headers) is not None


def _refused(error: Exception) -> NotAppended:
    return NotAppended(NO_ANSWER, retry_after_s=1, cause=error)


def _unknown(why: str) -> AppendUnknown:
    return AppendUnknown("It is not yet known whether the record was written.", retry_after_s=1, cause=why)
