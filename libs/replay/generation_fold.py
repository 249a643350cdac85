"""Replay: folds a topic's log into another generation of its views, while the live one continues."""

import asyncio
import time
from asyncio import TaskGroup
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Final, TypeVar

from libs.contracts.log_records import Behind, LogRecord, Position
from libs.kafka.reader import Extent, LogReader
from libs.projection.log_identity import LogIdentity, demand, read_identities, start_of
from libs.projection.projection_interface import Projection
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.views.generations.generations import Generations, State

FOLD_RECORDS: Final = 2_000
"""Maximum records per `fold` call, as in the live fold."""
PATIENCE_S: Final = 60.0
"""Seconds without a server or progress of a partition, after which a replay fails; it can be resumed."""
RETRY_S: Final = 0.5

CHECK_S: Final = 0.5
"""Interval at which partitions without new records are checked."""
AGAIN_S: Final = 0.05

T = TypeVar("T")
OnProgress = Callable[[int, int], None]
"""Receives a partition and its new offset."""
IsDone = Callable[[int, Position], Awaitable[bool]]
"""Returns whether a partition, whose generation is at the position, need not be folded any further."""


class Replay:
    """Folds generation `number` of a topic's views from its stored position to the live one's.

    `projection` folds into that generation; a restarted replay resumes at the stored positions. It writes only the
    generation: no gates, reservations or address counters, and it triggers no process manager.
    """

    def __init__(
        self,
        projection: Projection,
        generations: Generations,
        reader: LogReader,
        number: int,
        parallel: int = 4,
    ) -> None:
        """`parallel` is the number of partitions folded concurrently; one consumer reads them all."""
        self._topic = projection.topic
        self._projection = projection
        self._generations = generations
        self._reader = reader
        self._number = number
        self._parallel = parallel

    async def follow(
        self, partitions: Collection[int], on_progress: OnProgress, is_done: IsDone | None = None
    ) -> None:
        """Fold until each partition `is_done`, in any order.

        By default until the generation follows the live one: then the projector folds both together. Raises as
        `is_done`, and `GenerationGone`, `LogChanged`, `LogUnavailable` and `ViewsUnavailable`.
        """
        left = set(partitions)
        await self.fold(dict.fromkeys(left), on_progress)
        await self._patiently(left, lambda: self._keep_up(left, on_progress, is_done or self._follows))

    async def _follows(self, partition: int, position: Position) -> bool:
        try:
            return await self._generations.touch(partition, self._number, position) is not State.BUILDING
        except Behind as behind:
            raise self._went_back(partition, behind) from None

    async def _keep_up(self, left: set[int], on_progress: OnProgress, is_done: IsDone) -> None:
        """Fold records as they come, and remove from `left` what is done.

        One consumer goes on reading: while another one starts, a busy live view gets ahead again.
        """
        positions = await self._starts(left)
        starts = {partition: position.offset for partition, position in positions.items()}
        checked, check_at = dict[int, Position](), 0.0
        async with aclosing(self._reader.follow(self._topic.name, starts)) as batches:
            batch = asyncio.ensure_future(anext(batches))
            try:
                while True:
                    candidates = set[int]()
                    if batch.done():
                        partition, records = batch.result()
                        if partition in left:
                            await self._take(partition, positions, records, on_progress)
                            candidates.add(partition)
                        batch = asyncio.ensure_future(anext(batches))
                    if time.monotonic() >= check_at:
                        candidates |= left
                        await self._check_live([one for one in left if positions[one] == checked.get(one)])
                        checked, check_at = dict(positions), time.monotonic() + CHECK_S
                    for partition in candidates:
                        if await is_done(partition, positions[partition]):
                            left.discard(partition)
                    if not left:
                        return
                    await asyncio.wait({batch}, timeout=AGAIN_S)
            finally:
                batch.cancel()
                await asyncio.wait({batch})

    async def _check_live(self, partitions: Collection[int]) -> None:
        """Raise `LogChanged` unless the live generation's position exists in this log."""
        live = {partition: (await self._generations.read(partition)).live.position for partition in partitions}
        for partition, origin in (await self._origins(partitions)).items():
            start_of(self._topic, partition, origin, live[partition])

    async def fold(self, stops: Mapping[int, int | None], on_progress: OnProgress) -> dict[int, Position]:
        """Fold each partition up to its offset in `stops`, or the log's current end. Raises as `follow`."""
        return await self._patiently(stops, lambda: self._fold_ranges(stops, on_progress))

    async def _patiently(self, partitions: Collection[int], step: Callable[[], Awaitable[T]]) -> T:
        """Repeat a step that a server's absence ended, as long as the partitions advance every `PATIENCE_S`."""
        moved_at, furthest = time.monotonic(), -1
        while True:
            try:
                return await step()
            except (LogUnavailable, ViewsUnavailable):
                stored = await self._stored(partitions)
                if stored > furthest:
                    moved_at, furthest = time.monotonic(), stored
                elif time.monotonic() - moved_at > PATIENCE_S:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _stored(self, partitions: Iterable[int]) -> int:
        """Return the sum of the stored offsets; -1 while the views are unavailable."""
        try:
            positions = await asyncio.gather(*(self._projection.position(partition) for partition in partitions))
        except ViewsUnavailable:
            return -1
        return sum(position.offset for position in positions if position is not None)

    async def _fold_ranges(self, stops: Mapping[int, int | None], on_progress: OnProgress) -> dict[int, Position]:
        positions, ranges = await self._starts(stops), dict[int, Extent]()
        ends = await self._reader.end_offsets(self._topic.name, positions)
        for partition, stop in stops.items():
            ranges[partition] = Extent(positions[partition].offset, ends[partition] if stop is None else stop)

        async def take(partition: int, records: Sequence[LogRecord], before: asyncio.Task[None] | None) -> None:
            if before is not None:
                await before
            await self._take(partition, positions, records, on_progress)
            slots.release()

        slots, latest = asyncio.Semaphore(self._parallel), dict[int, asyncio.Task[None]]()
        try:
            async with aclosing(self._reader.records(self._topic.name, ranges)) as batches, TaskGroup() as group:
                async for partition, records in batches:
                    await slots.acquire()
                    latest[partition] = group.create_task(take(partition, records, latest.get(partition)))
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return positions

    async def _take(
        self, partition: int, positions: dict[int, Position], records: Sequence[LogRecord], on_progress: OnProgress
    ) -> None:
        for at in range(0, len(records), FOLD_RECORDS):
            piece = records[at : at + FOLD_RECORDS]
            positions[partition] = await self._fold(partition, positions[partition], piece)
            on_progress(partition, positions[partition].offset)

    async def _starts(self, partitions: Iterable[int]) -> dict[int, Position]:
        """Return the positions that the generation has stored."""
        stored = {partition: await self._projection.position(partition) for partition in partitions}
        origins = await self._origins(stored)
        return {
            partition: start_of(self._topic, partition, origins[partition], position)
            for partition, position in stored.items()
        }

    async def _origins(self, partitions: Collection[int]) -> dict[int, LogIdentity]:
        if not partitions:
            return {}
        return demand(self._topic, await read_identities(self._reader, self._topic, partitions), partitions)

    async def _fold(self, partition: int, position: Position, records: Sequence[LogRecord]) -> Position:
        """Fold those of `records` that the view lacks: once it follows, the projector may have advanced it."""
        end = Position(position.log_id, records[-1].offset + 1)
        while position.offset < end.offset:
            rest = records[max(0, position.offset - records[0].offset) :]
            try:
                await self._projection.fold(partition, position, rest)
                position = end
            except Behind as behind:
                if behind.stored is None or behind.stored.offset <= position.offset:
                    raise self._went_back(partition, behind) from None
                position = behind.stored
        return position

    def _went_back(self, partition: int, behind: Behind) -> ViewsUnavailable:
        return _WentBack(f"{self._topic.name}/{partition}: {behind}", retry_after_s=1)


class _WentBack(ViewsUnavailable):
    """The view's position went back: Valkey lost its last writes."""
