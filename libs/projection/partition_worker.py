"""Worker that folds one assigned partition: strictly in order, retried until it succeeds, nothing skipped."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Protocol

from aiokafka import ConsumerRecord

from libs.contracts.log_records import Behind, LogRecord, Position
from libs.kafka.errors import LogChanged
from libs.kafka.reader import check_contiguous
from libs.projection.projection_interface import NewerEvent, Projection
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.telemetry.metrics import FOLD_FAILURES, FOLD_SECONDS, FOLDED_RECORDS
from libs.telemetry.tracing import TRACEPARENT, Tracing
from libs.views.valkey.connection import OtherLayout

FIRST_BACKOFF_S = 0.05
LONGEST_BACKOFF_S = 2.0
FOLD_RECORDS = 2_000
"""Maximum records per `fold` call."""
GAPS_TOLERATED = 2
"""Gaps tolerated: a batch in flight during a seek appears as an offset gap; one more is a real gap."""

logger = logging.getLogger(__name__)


class Source(Protocol):
    """Source of a partition's records: the group's consumer."""

    def seek(self, partition: int, offset: int) -> None:
        """Continue at `offset`, and drop prefetched records."""

    def pause(self, partition: int) -> None:
        """Deliver nothing until resumed."""

    def resume(self, partition: int) -> None: ...


class FoldTraces:
    """Trace contexts of one partition's records, by offset; most records have none."""

    def __init__(self, tracing: Tracing, topic: str, partition: int) -> None:
        self._tracing = tracing
        self._topic = topic
        self._partition = partition
        self._waiting: dict[int, bytes] = {}

    def note(self, records: Iterable[ConsumerRecord[bytes, bytes]]) -> None:
        """Store the trace contexts of fetched records, once per offset."""
        for record in records:
            for name, value in record.headers:
                if name == TRACEPARENT:
                    self._waiting[record.offset] = value

    @contextmanager
    def fold(self, records: Sequence[LogRecord]) -> Iterator[None]:
        """Wrap the fold of consecutive records; if it succeeds, add its span to their traces."""
        if not self._waiting:
            yield
            return
        first, end = records[0].offset, records[-1].offset + 1
        found = {offset: value for offset, value in self._waiting.items() if first <= offset < end}
        with self._tracing.fold(self._topic, self._partition, len(records), found):
            yield
        self._waiting = {offset: value for offset, value in self._waiting.items() if offset >= end}


class PartitionWorker:
    """Queues and folds the records of one partition.

    `stalled_since` (seconds since 1970) is the start of current failures (views away, or a bug), else None.
    `folded` is the number of records in successful folds.
    """

    def __init__(
        self,
        projection: Projection,
        partition: int,
        source: Source,
        place: Callable[[int], Awaitable[Position]],
        on_room: Callable[[], None],
        traces: FoldTraces | None = None,
    ) -> None:
        self.partition = partition
        self.position: Position | None = None
        self.stalled_since: float | None = None
        self.folded = 0
        self.queued = 0
        self._projection = projection
        topic = projection.topic.name
        self._fold_seconds = FOLD_SECONDS.labels(topic)
        self._folded_records, self._failures = FOLDED_RECORDS.labels(topic), FOLD_FAILURES.labels(topic)
        self._source = source
        self._place = place
        self._on_room = on_room
        self.traces = traces
        self._inbox: deque[list[LogRecord]] = deque()
        self._arrived = asyncio.Event()
        self._done = asyncio.Event()
        self._done.set()
        self._next = 0
        self._gaps = 0
        self._is_work_left = True
        """False if records that were folded leave no work."""

    @property
    def idle(self) -> bool:
        """True if placed, not failing, and waiting for records."""
        return self.position is not None and self.stalled_since is None and not self.queued

    def offer(self, records: list[LogRecord]) -> None:
        """Queue fetched records; drop known ones, and fetch again from a gap.

        Raises `LogChanged` if the log has an offset gap.
        """
        if self.position is None or records[-1].offset < self._next:
            return
        first = records[0].offset
        if first > self._next and self._gaps < GAPS_TOLERATED:
            self._gaps += 1
            self._source.seek(self.partition, self._next)
            return
        check_contiguous(f"{self._projection.topic.name}/{self.partition}", records, min(first, self._next))
        self._gaps = 0
        fresh = records[self._next - first :] if first < self._next else records
        self._inbox.append(fresh)
        self.queued += len(fresh)
        self._next = fresh[-1].offset + 1
        self._arrived.set()
        self._done.clear()
        if self.stalled_since is not None:
            self._source.pause(self.partition)

    async def run(self) -> None:
        """Fold until cancelled. Raises `LogChanged`, and nothing else."""
        await self._retry(self._load_position)
        while True:
            if self._is_work_left and not self._arrived.is_set():
                await self._retry(self._clean_up)
                continue
            await self._arrived.wait()
            if self._inbox:
                await self._retry(partial(self._fold, self._take()))
                self._on_room()
            else:
                self._arrived.clear()
                await self._retry(self._check_view)

    def check_view(self) -> None:
        """Compare the view with the folded records soon: it may have been emptied or restored to an older state.

        A fold does so anyway.
        """
        self._arrived.set()

    async def drained(self) -> None:
        """Wait until all queued records are folded."""
        await self._done.wait()

    def _take(self) -> list[LogRecord]:
        records = self._inbox.popleft()
        while self._inbox and len(records) + len(self._inbox[0]) <= FOLD_RECORDS:
            records = records + self._inbox.popleft()
        if len(records) > FOLD_RECORDS:
            self._inbox.appendleft(records[FOLD_RECORDS:])
            records = records[:FOLD_RECORDS]
        if not self._inbox:
            self._arrived.clear()
        return records

    async def _fold(self, records: list[LogRecord]) -> None:
        """Fold those of `records` that the view lacks; if it is behind them, seek back."""
        assert self.position is not None
        assert self.position.offset >= records[0].offset
        rest = records[self.position.offset - records[0].offset :]
        while rest:
            began = time.perf_counter()
            try:
                with nullcontext() if self.traces is None else self.traces.fold(rest):
                    self._is_work_left |= await self._projection.fold(self.partition, self.position, rest)
            except Behind as behind:
                stored = behind.stored
                if stored is None or stored.log_id != self.position.log_id:
                    await self._load_position()
                    return
                known = stored.offset - rest[0].offset
                if stored == self.position:
                    raise ViewsUnavailable(f"The view went back to {stored} between two calls.") from behind
                if known < 0:
                    self._seek(stored)
                    return
                self.position = stored
                rest = rest[known:]
            except NewerEvent as newer:
                self.position = Position(self.position.log_id, newer.offset)
                raise
            else:
                self.position = Position(self.position.log_id, rest[-1].offset + 1)
                self.folded += len(rest)
                self._fold_seconds.observe(time.perf_counter() - began)
                self._folded_records.inc(len(rest))
                rest = []
        self.queued -= len(records)
        if not self.queued:
            self._done.set()

    async def _clean_up(self) -> None:
        self._is_work_left = await self._projection.clean_up(self.partition)

    async def _check_view(self) -> None:
        """Continue at the view's position if that is another.

        A view that has not begun has no position; another seek would discard the fetch of its first records.
        """
        stored = await self._projection.position(self.partition)
        is_new = stored is None and self.position is not None and self.position.offset == 0
        if stored != self.position and not is_new:
            await self._load_position()

    async def _load_position(self) -> None:
        """Read the view's position, and continue there."""
        self._seek(await self._place(self.partition))
        self._source.resume(self.partition)

    def _seek(self, position: Position) -> None:
        self._inbox.clear()
        self._arrived.clear()
        self._done.set()
        self.queued = 0
        self._is_work_left = True
        self.position = position
        self._next = position.offset
        self._source.seek(self.partition, position.offset)

    async def _retry(self, step: Callable[[], Awaitable[None]]) -> None:
        """Retry `step` until it succeeds. Meanwhile the partition is paused if it has records: others continue.

        Without records it stays in the fetches, which it would join only after the current one is answered.
        """
        backoff_s = FIRST_BACKOFF_S
        while True:
            try:
                await step()
            except LogChanged:
                raise
            except NewerEvent as error:
                self._stalled(f"waits: {error}", None)
            except OtherLayout as error:
                self._stalled(f"waits: {error.cause}", None, is_failure=False)
            except (ViewsUnavailable, LogUnavailable) as error:
                self._stalled(f"waits: {error}", None)
            except Exception as error:
                # A bug must not skip records: it stays visible, and is retried.
                self._stalled(f"failed at {self.position}: {error!r}", error)
            else:
                break
            await asyncio.sleep(backoff_s)
            backoff_s = min(backoff_s * 2, LONGEST_BACKOFF_S)
        if self.stalled_since is not None:
            self.stalled_since = None
            self._source.resume(self.partition)

    def _stalled(self, what: str, bug: Exception | None, *, is_failure: bool = True) -> None:
        if is_failure:
            self._failures.inc()
        if self.stalled_since is None:
            self.stalled_since = time.time()
            if self.queued:
                self._source.pause(self.partition)
            self._on_room()
            topic, level = self._projection.topic.name, logging.ERROR if bug else logging.WARNING
            where = {"topic": topic, "partition": self.partition, "offset": self.position and self.position.offset}
            logger.log(level, "projection of %s/%d %s", topic, self.partition, what, exc_info=bug, extra=where)
