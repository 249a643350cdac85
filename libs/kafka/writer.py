"""Appending to the log: group commit per partition, with outcomes that are never guessed."""

import asyncio
import contextlib
import copy
import logging
import math
import time
from collections import deque
from contextvars import Context
from typing import NamedTuple

from aiokafka.errors import KafkaError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.structs import RecordMetadata

from libs.contracts.log_records import Appended
from libs.kafka.errors import NO_ANSWER, AppendUnknown, NotAppended
from libs.kafka.guard import LogGuard
from libs.kafka.producers import SEQUENCE_ROOM, Link, Producers
from libs.kafka.settings import KafkaSettings
from libs.metrics.table import APPEND_SECONDS, APPENDED_RECORDS
from libs.tally.errors import LogUnavailable
from libs.telemetry.tracing import NO_HEADERS, Headers, Tracing

SWEEP_S = 0.02
"""How often deadlines are looked at; one may be answered this much late."""
_TOO_LATE = "The log did not take the record in time."
_STOPPING = "the process is stopping"

logger = logging.getLogger(__name__)


class _Waiting(NamedTuple):
    """One record on its way, and who waits for it until when (by the loop's clock)."""

    value: bytes
    key: bytes | None
    headers: Headers
    deadline: float
    answer: "asyncio.Future[Appended]"


class _Lane:
    """One partition: what waits, and the one batch that is in flight."""

    __slots__ = (
        "acknowledged",
        "earliest",
        "end",
        "flight",
        "partition",
        "queue",
        "refused",
        "seconds",
        "topic",
        "unknown",
        "worker",
    )

    def __init__(self, topic: str, partition: int) -> None:
        self.topic = topic
        self.partition = partition
        self.queue: deque[_Waiting] = deque()
        self.flight: list[_Waiting] = []
        self.worker: asyncio.Task[None] | None = None
        self.earliest = math.inf
        """No deadline of a record here is before this one."""
        self.end = 1
        """No record may land before this offset: LogCreated has the first, and offsets only go up."""
        self.seconds = APPEND_SECONDS.labels(topic)
        self.acknowledged, self.refused, self.unknown = (
            APPENDED_RECORDS.labels(topic, outcome) for outcome in ("acknowledged", "refused", "unknown")
        )

    def fail(self, waiting: _Waiting, error: LogUnavailable) -> None:
        """Answer one that nobody has answered yet."""
        if not waiting.answer.done():
            (self.refused if isinstance(error, NotAppended) else self.unknown).inc()
            waiting.answer.set_exception(error)


class LogWriter:
    """Appends records, each acknowledged by all in-sync replicas before its caller hears so.

    While a partition's batch is in flight the following records are collected, and go as one batch when it is
    acknowledged. In each partition records keep the order of their appends, except behind an unknown outcome: what
    is unknown may still arrive, after later records.
    """

    def __init__(
        self, settings: KafkaSettings, tracing: Tracing | None = None, guard: LogGuard | None = None
    ) -> None:
        """With `tracing`, records carry the trace in which they were submitted. `guard` may refuse them."""
        self._guard = guard
        self._settings = settings
        self._tracing = tracing
        self._deadline_s = settings.produce_deadline_ms / 1000
        self._lanes: dict[tuple[str, int], _Lane] = {}
        self._held = 0
        self._stopping = False
        self._emptied = asyncio.Event()
        self._sweeper: asyncio.Task[None] | None = None
        self._producers = Producers(settings, self._wake_all)

    @property
    def held(self) -> int:
        """Records that were taken on and not answered yet."""
        return self._held

    @property
    def ready(self) -> bool:
        """Whether there is a producer to send through."""
        return self._producers.link is not None

    async def check(self) -> None:
        """For health checks: raises `LogUnavailable` unless Kafka answers now."""
        link = self._producers.link
        if link is None:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause="no connection to Kafka")
        try:
            await link.producer.client.fetch_all_metadata()
        except KafkaError as error:
            raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error

    @property
    def retired(self) -> int:
        """Replaced producers that are still delivering what they had taken on."""
        return self._producers.retired

    async def start(self) -> None:
        """Begin to connect. Returns at once, and never fails: until Kafka answers, appends get `NotAppended`."""
        self._sweeper = asyncio.create_task(self._sweep())
        self._producers.connect()

    async def stop(self, timeout_s: float = 10.0) -> None:
        """Take nothing on any more, deliver what was taken, and answer what is left after `timeout_s` honestly."""
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
        for lane in self._lanes.values():
            if lane.worker is not None:
                lane.worker.cancel()
            self._answer_flight(lane, _unknown(_STOPPING))
            self._refuse_all(lane, NotAppended(_STOPPING, retry_after_s=1))
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
        """`submit`, and wait for the answer."""
        return await self.submit(topic, partition, value, key, deadline_s=deadline_s)

    def submit(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None = None,
        *,
        deadline_s: float | None = None,
    ) -> "asyncio.Future[Appended]":
        """Append one record; `deadline_s` (default by setting) is how long the answer may take.

        The answer is an exception: `NotAppended` when the record certainly is not in the log, `AppendUnknown` when
        that cannot be told. A caller that is cancelled disturbs nobody else's record; its own may or may not be
        appended.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Appended] = loop.create_future()
        refusal = self._refusal(value, key)
        if refusal is not None:
            APPENDED_RECORDS.labels(topic, "refused").inc()
            answer.set_exception(refusal)
            return answer
        deadline = loop.time() + (self._deadline_s if deadline_s is None else deadline_s)
        lane = self._lanes.get((topic, partition))
        if lane is None:
            lane = self._lanes[topic, partition] = _Lane(topic, partition)
        lane.earliest = min(lane.earliest, deadline)
        headers = NO_HEADERS if self._tracing is None else self._tracing.headers()
        lane.queue.append(_Waiting(value, key, headers, deadline, answer))
        self._held += 1
        if lane.worker is None and self._producers.link is not None:
            self._wake(lane)
        return answer

    def _refusal(self, value: bytes, key: bytes | None) -> NotAppended | None:
        """Why a record is not even queued."""
        if self._stopping:
            return NotAppended(_STOPPING, retry_after_s=1)
        if self._guard is not None and (refusal := self._guard.append_refusal()) is not None:
            return NotAppended(refusal.message, retry_after_s=refusal.retry_after_s, cause=refusal.cause)
        if self._producers.away is not None:
            return NotAppended(NO_ANSWER, retry_after_s=1, cause=self._producers.away)
        if self._held >= self._settings.produce_max_queued_records:
            return NotAppended("Too many records wait to be written.", retry_after_s=1)
        if len(value) + (len(key) if key else 0) > self._settings.produce_max_record_bytes:
            return NotAppended(f"A record of {len(value)} bytes is too large for the log.")
        return None

    def _wake_all(self) -> None:
        for lane in self._lanes.values():
            if lane.worker is None and lane.queue:
                self._wake(lane)

    def _wake(self, lane: _Lane) -> None:
        # it outlives the request that wakes it: what it logs is not that one's
        lane.worker = asyncio.create_task(self._work(lane), context=Context())

    async def _work(self, lane: _Lane) -> None:
        """Send what waits, batch after batch; ends when nothing waits, or when there is no producer."""
        try:
            while lane.queue and (link := self._producers.link) is not None:
                await self._send(lane, link)
        except Exception as error:
            logger.exception("sending to %s/%d failed", lane.topic, lane.partition)
            self._answer_flight(lane, _unknown(repr(error)))
        finally:
            lane.worker = None

    async def _send(self, lane: _Lane, link: Link) -> None:
        producer = link.producer
        try:
            # The only wait before a batch is the producer's: all that time its records are in our own queue.
            partitions = await producer.partitions_for(lane.topic)
            if self._guard is not None:
                self._guard.check_partitions(lane.topic, len(partitions))
        except Exception as error:
            self._refuse_all(lane, _refused(error))
            return
        if lane.partition not in partitions:
            self._refuse_all(
                lane,
                NotAppended(NO_ANSWER, retry_after_s=1, cause=f"{lane.topic} has no partition {lane.partition}"),
            )
            return
        if link is not self._producers.link:
            return
        batch = producer.create_batch()
        self._fill(lane, batch)
        if not lane.flight:
            return
        try:
            ack = await producer.send_batch(batch, lane.topic, partition=lane.partition)
        except Exception as error:
            # It took nothing on, and never will again: its sender has ended.
            self._producers.replace(link, f"{lane.topic}/{lane.partition}: {error!r}", always=True)
            self._answer_flight(lane, _refused(error))
            return
        link.records += len(lane.flight)
        if link.records > SEQUENCE_ROOM:
            self._producers.replace(link, "its sequence numbers run out")
        await self._land(lane, link, ack)

    def _fill(self, lane: _Lane, batch: BatchBuilder) -> None:
        """Move what waits into `batch` until it is full, leaving out what nobody waits for any more."""
        queue, flight = lane.queue, lane.flight
        now, now_ms = asyncio.get_running_loop().time(), int(time.time() * 1000)
        while queue:
            waiting = queue[0]
            if waiting.answer.done() or waiting.deadline <= now:
                self._drop(lane, waiting, _TOO_LATE)
            elif not _add(batch, now_ms, waiting):
                break
            else:
                flight.append(waiting)
            queue.popleft()

    async def _land(self, lane: _Lane, link: Link, ack: "asyncio.Future[RecordMetadata]") -> None:
        """Wait until the batch in flight is acknowledged, has failed, or has hung; answer its callers."""
        ack.add_done_callback(_retrieve)
        began = time.perf_counter()
        while not ack.done():
            await asyncio.wait([ack], timeout=self._deadline_s)
            # With too many retired producers a new one would only hang as this one does: wait on.
            if not ack.done() and self._producers.replace(link, f"{lane.topic}/{lane.partition} hangs"):
                self._answer_flight(lane, _unknown("no acknowledgement in time"))
                return
        error = asyncio.CancelledError() if ack.cancelled() else ack.exception()
        if error is not None:
            # The batch's sequence numbers are gone, so everything that this producer sent next would be refused.
            self._producers.replace(link, f"{lane.topic}/{lane.partition}: {error!r}", always=True)
            self._answer_flight(lane, _unknown(repr(error)))
            return
        landed = ack.result()
        lane.seconds.observe(time.perf_counter() - began)
        if self._guard is not None and landed.timestamp_type != 0:
            if landed.offset < lane.end:
                self._guard.report_shortened(lane.topic, lane.partition)
                self._answer_flight(lane, _unknown("the log is not the one that was appended to before"))
                return
            lane.end = landed.offset + len(lane.flight)
        partition, offset, exact = lane.partition, landed.offset, landed.timestamp_type != 0
        answered = 0
        for waiting in lane.flight:
            if not waiting.answer.done():
                waiting.answer.set_result(Appended(partition, offset, exact))
                answered += 1
            offset += 1
        lane.acknowledged.inc(answered)
        self._release(len(lane.flight))
        lane.flight = []

    async def _sweep(self) -> None:
        """Answer those whose deadline has passed: what still waits here is definite, what is in flight unknown."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(SWEEP_S)
            now = loop.time()
            for lane in self._lanes.values():
                if lane.earliest <= now:
                    self._expire(lane, now)

    def _expire(self, lane: _Lane, now: float) -> None:
        live: deque[_Waiting] = deque()
        for waiting in lane.queue:
            if waiting.answer.done() or waiting.deadline <= now:
                self._drop(lane, waiting, _TOO_LATE)
            else:
                live.append(waiting)
        lane.queue = live
        for waiting in lane.flight:
            if waiting.deadline <= now and not waiting.answer.done():
                lane.fail(waiting, _unknown("no acknowledgement in time"))
        pending = (waiting.deadline for waiting in (*live, *lane.flight) if not waiting.answer.done())
        lane.earliest = min(pending, default=math.inf)

    def _release(self, count: int) -> None:
        self._held -= count
        if not self._held:
            self._emptied.set()

    def _drop(self, lane: _Lane, waiting: _Waiting, why: str, cause: str | None = None) -> None:
        """Answer one that is no longer queued, and never was in a batch."""
        self._release(1)
        lane.fail(waiting, NotAppended(why, retry_after_s=1, cause=cause))

    def _refuse_all(self, lane: _Lane, refusal: NotAppended) -> None:
        """Nothing of the lane has reached the producer, and nothing will."""
        self._answer_flight(lane, refusal)
        while lane.queue:
            self._drop(lane, lane.queue.popleft(), refusal.message, refusal.cause)

    def _answer_flight(self, lane: _Lane, error: LogUnavailable) -> None:
        flight, lane.flight = lane.flight, []
        self._release(len(flight))
        for waiting in flight:
            lane.fail(waiting, copy.copy(error))


def _add(batch: BatchBuilder, now_ms: int, waiting: _Waiting) -> bool:
    """Whether there was room."""
    value, key, headers = waiting.value, waiting.key, waiting.headers
    return batch.append(timestamp=now_ms, key=key, value=value, headers=headers) is not None


def _refused(error: Exception) -> NotAppended:
    return NotAppended(NO_ANSWER, retry_after_s=1, cause=error)


def _unknown(why: str) -> AppendUnknown:
    return AppendUnknown("It is not known yet if the record was written.", retry_after_s=1, cause=why)


def _retrieve(ack: "asyncio.Future[RecordMetadata]") -> None:
    """An acknowledgement that nobody waits for any more must not be reported as an unseen error."""
    if not ack.cancelled():
        ack.exception()
