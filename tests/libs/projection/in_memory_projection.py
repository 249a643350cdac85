"""A projection in memory, for tests of the loop: the same compare-and-set as the real ones, and a list."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from libs.contracts.log_records import Behind, LogRecord, Position
from libs.contracts.topics import Topic
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import Projection
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import Witness
from libs.views.valkey.partition_reads import Group, Mark
from tests.support.eventually import eventually


class Views:
    """State that several projectors share, as they share Valkey."""

    def __init__(self) -> None:
        self.positions: dict[int, Position] = {}
        self.values: defaultdict[int, list[bytes]] = defaultdict(list)
        self.away = False
        self.broken: set[int] = set()
        """Partitions whose fold raises an unexpected error."""
        self.goes_back: Position | None = None
        """Where the view is put during the next fold, which is refused then."""
        self.begun = 0
        """Folds that were begun."""
        self.refusals = 0
        self.times: dict[int, int] = {}
        """Times of the last folded records (ms)."""
        self.lost: list[tuple[int, int, int]] = []
        """Partition, first lost offset and offset after the last, of views that began again."""

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return [tuple(partitions)]

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        if self.away:
            return dict.fromkeys(group, ViewsUnavailable("away"))
        return {partition: Mark(self.positions.get(partition), 0) for partition in group}

    def all_values(self) -> list[bytes]:
        return [value for values in self.values.values() for value in values]


class Steering:
    """Records what a fold asks of its source."""

    def __init__(self) -> None:
        self.sought: list[int] = []
        self.is_paused = False

    def seek(self, partition: int, offset: int) -> None:
        self.sought.append(offset)

    def pause(self, partition: int) -> None:
        self.is_paused = True

    def resume(self, partition: int) -> None:
        self.is_paused = False


@asynccontextmanager
async def folding(projection: Projection, source: Steering) -> AsyncIterator[PartitionWorker]:
    """Run the fold of partition 0, placed where the view stands."""

    async def place(partition: int) -> Position:
        return await projection.position(partition) or Position("log", 0)

    worker = PartitionWorker(projection, 0, source, place, lambda: None)
    task = asyncio.create_task(worker.run())
    try:
        await eventually(lambda: worker.position)
        yield worker
    finally:
        task.cancel()
        await asyncio.wait([task])


class MemoryProjection:
    """Keeps every folded value but LogCreated's, in order."""

    fresh = None

    def __init__(self, topic: Topic, views: Views, hold: asyncio.Event | None = None) -> None:
        self.topic = topic
        self.live = views
        self.views = views
        self.hold = hold
        """Folds wait for it, if given, between reading their batch and applying it."""

    async def position(self, partition: int) -> Position | None:
        if self.views.away:
            raise ViewsUnavailable("away")
        return self.views.positions.get(partition)

    async def witness(self, partition: int) -> Witness | None:
        at, time_ms = self.views.positions.get(partition), self.views.times.get(partition)
        return None if at is None or time_ms is None else Witness(at.offset - 1, time_ms)

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        if self.views.positions.get(partition) != stored:
            return False
        del self.views.positions[partition], self.views.values[partition]
        self.views.lost.append((partition, first_lost, stored.offset))
        return True

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        assert [record.offset for record in records] == list(range(start.offset, start.offset + len(records)))
        self.views.begun += 1
        await asyncio.sleep(0)
        if self.hold is not None:
            await self.hold.wait()
        views = self.views
        if views.away:
            raise ViewsUnavailable("away")
        if partition in views.broken:
            raise ZeroDivisionError("a bug")
        if views.goes_back is not None:
            stored, views.goes_back = views.goes_back, None
            raise Behind(stored)
        end = Position(start.log_id, records[-1].offset + 1)
        stored = views.positions.get(partition, Position(start.log_id, 0))
        if stored.log_id == start.log_id and stored.offset >= end.offset:
            return False
        if stored != start:
            views.refusals += 1
            raise Behind(views.positions.get(partition))
        views.positions[partition], views.times[partition] = end, records[-1].timestamp_ms
        views.values[partition] += [record.value for record in records if b"LogCreated" not in record.value]
        return False

    async def clean_up(self, _: int) -> bool:
        return False
