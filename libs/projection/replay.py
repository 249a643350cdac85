"""Folding a topic's log once more, into another generation of its views, while the live one goes on."""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import aclosing
from typing import Final

from libs.contracts.log import Behind, LogRecord, Position
from libs.kafka.log import Extent, LogReader
from libs.projection.origin import Origin, start_of
from libs.projection.projection import Projection
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.views.generations import Generations, State

FOLD_RECORDS: Final = 2_000
"""Most records of one `fold` call, as of the live fold."""
PATIENCE_S: Final = 60.0
"""How long a server may be away, or a partition get no further, until the replay gives up; it can be resumed."""
RETRY_S: Final = 0.5

Told = Callable[[int, int], None]
"""Is told a partition, and the offset that it has come to."""


class Replay:
    """Brings generation `number` of a topic's views as far as the live one, from where it stands.

    `projection` folds into that generation; who stops and begins again goes on where the views stand. Nothing but
    the generation is written: no gate, no reservation, no address counter, no process manager hears of it.
    """

    def __init__(self, projection: Projection, generations: Generations, reader: LogReader, number: int) -> None:
        self._topic = projection.topic
        self._projection = projection
        self._generations = generations
        self._reader = reader
        self._log_ids: dict[int, str] = {}
        self._asking = asyncio.Lock()
        self._number = number

    async def follow(self, partition: int, told: Told) -> None:
        """Fold until the generation follows the live one: then they are folded together, by the projector.

        Raises `GenerationGone`, `LogChanged`, `LogUnavailable` and `ViewsUnavailable`.
        """
        before = None
        while True:
            position = await self.fold(partition, None, told)
            state = await self._generations.touch(partition, self._number, position)
            if state is not State.BUILDING:
                return
            if position == before:
                await self._check_live(partition)
            before = position

    async def _check_live(self, partition: int) -> None:
        """The end of the log is not where the live generation stands: does that stand in this log at all?"""
        live = (await self._generations.read(partition)).live.position
        start_of(self._topic, partition, await self._origin(partition), live)

    async def fold(self, partition: int, stop: int | None, told: Told) -> Position:
        """Fold up to the offset `stop`, or up to where the log ends now. Raises as `follow` does."""
        moved_at, furthest = time.monotonic(), -1
        while True:
            try:
                return await self._fold_range(partition, stop, told)
            except (LogUnavailable, ViewsUnavailable):
                self._log_ids = {}
                stored = await self._stored(partition)
                if stored > furthest:
                    moved_at, furthest = time.monotonic(), stored
                elif time.monotonic() - moved_at > PATIENCE_S:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _stored(self, partition: int) -> int:
        try:
            position = await self._projection.position(partition)
        except ViewsUnavailable:
            return -1
        return 0 if position is None else position.offset

    async def _fold_range(self, partition: int, stop: int | None, told: Told) -> Position:
        origin = await self._origin(partition)
        position = start_of(self._topic, partition, origin, await self._projection.position(partition))
        end = origin.extent.end if stop is None else stop
        if position.offset < end:
            ranges = {partition: Extent(position.offset, end)}
            async with aclosing(self._reader.records(self._topic.name, ranges)) as batches:
                async for _, records in batches:
                    for at in range(0, len(records), FOLD_RECORDS):
                        position = await self._fold(partition, position, records[at : at + FOLD_RECORDS])
                        told(partition, position.offset)
        return position

    async def _origin(self, partition: int) -> Origin:
        """Where the log ends is asked each time; which one it is, once for all partitions while nothing fails."""
        async with self._asking:
            if partition not in self._log_ids:
                self._log_ids = await self._reader.log_ids(self._topic.name, range(self._topic.partitions))
        if partition not in self._log_ids:
            raise LogUnavailable(f"{self._topic.name}/{partition} is empty: its creation is not complete")
        extents = await self._reader.extents(self._topic.name, [partition])
        return Origin(self._log_ids[partition], extents[partition])

    async def _fold(self, partition: int, position: Position, records: Sequence[LogRecord]) -> Position:
        """Fold what the view lacks of `records`: once it follows, the projector may have brought it further."""
        end = Position(position.log_id, records[-1].offset + 1)
        while position.offset < end.offset:
            rest = records[max(0, position.offset - records[0].offset) :]
            try:
                await self._projection.fold(partition, position, rest)
                position = end
            except Behind as behind:
                if behind.stored is None or behind.stored.offset <= position.offset:
                    raise _WentBack(f"{self._topic.name}/{partition}: {behind}", retry_after_s=1) from None
                position = behind.stored
        return position


class _WentBack(ViewsUnavailable):
    """The view stands before where it stood: a Valkey that lost its last writes."""
