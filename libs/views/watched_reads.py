"""Watches many partitions: replies of a function are kept, and read again only where something changed.

The functions of a server note in its memory which partitions they change (`lua/shared/changes.lua`). So while
nothing changes, a look costs one call for each server, and reads of a few partitions in turn. No promise depends
on the notes. The reads in turn find changes that they lack: by functions of another version, during an upgrade,
and of keys that were deleted or restored. After such a change, all partitions are read each second for a while.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from libs.tally.errors import ViewsUnavailable
from libs.views.partition_reads import ChangeKind, Group, Mark, PartitionReads, mark_of

IN_TURN_PER_S: Final = 16
"""Partitions of a server read in turn each second."""
LEAST_HOLD_S, LONGEST_HOLD_S = 1.0, 10.0
"""Bounds of the time until a partition is read again without a note of a change."""
DISTRUST_S: Final = 60.0
"""Time after a change that was not noted in which each partition is read after `LEAST_HOLD_S`."""

T = TypeVar("T")


class ChangedPartitions:
    """The partitions that have to be read again."""

    def __init__(self, reads: PartitionReads, kind: ChangeKind) -> None:
        self._reads = reads
        self._kind = kind
        self._cursors: dict[Group, bytes] = {}
        self._until: dict[int, float] = {}
        """Times (of the event loop) until which reads hold, by partition; those with a noted change are absent."""
        self._distrusts_until = 0.0

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def due(self, group: Group) -> Group:
        """Return the group's partitions that have to be read, until `note_read`. Raises `ViewsUnavailable`.

        After the server has changed or was restarted, these are all of them.
        """
        cursor = self._cursors.get(group) or self._begin(group)
        self._cursors[group], changed = await self._reads.changes(group, self._kind, cursor)
        self._forget(group if changed is None else changed)
        now = _now()
        return tuple([each for each in group if self._until.get(each, 0.0) <= now])

    def is_noted(self, partition: int) -> bool:
        """Return whether it is due because a change was noted, or because it was never read."""
        return partition not in self._until

    def note_read(self, group: Group, partitions: Collection[int], hold_s: float = LONGEST_HOLD_S) -> None:
        """Note that these partitions were read after the latest `due`; each comes in turn at another time."""
        now, longest = _now(), min(LONGEST_HOLD_S, max(LEAST_HOLD_S, len(group) / IN_TURN_PER_S))
        if now < self._distrusts_until:
            longest = LEAST_HOLD_S
        each_s = min(hold_s, longest) / max(1, len(partitions))
        self._until.update({partition: now + at * each_s for at, partition in enumerate(partitions, 1)})

    def distrust(self, group: Group) -> None:
        """Have all partitions read: something changed that was not noted."""
        self._distrusts_until = _now() + DISTRUST_S
        self._forget(group)

    def _begin(self, group: Group) -> bytes:
        """Begin to watch a group, which replaces others of its first partition."""
        self._cursors = {former: its for former, its in self._cursors.items() if group[0] not in former}
        self._forget(group)
        return b""

    def _forget(self, partitions: Iterable[int]) -> None:
        for partition in partitions:
            self._until.pop(partition, None)


class WatchedReads(Generic[T]):
    """The latest replies of a function (`PartitionReads.read`), for one caller of a group at a time."""

    def __init__(
        self,
        reads: PartitionReads,
        function: str,
        kind: ChangeKind,
        decode: Callable[[Any], T],
        hold_s: Callable[[T], float] = lambda _: LONGEST_HOLD_S,
        noted: Callable[[T], object] = lambda reply: reply,
    ) -> None:
        """A reply is kept until a change of that kind, at most for `hold_s(reply)`.

        After a change it is read once more after `LEAST_HOLD_S`. `noted(reply)` is the part that changes only with
        a note.
        """
        self._reads = reads
        self._function = function
        self._decode = decode
        self._hold_s = hold_s
        self._noted = noted
        self._changed = ChangedPartitions(reads, kind)
        self._latest: dict[int, T | ViewsUnavailable] = {}

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def read(self, group: Group) -> Mapping[int, T | ViewsUnavailable]:
        """Return the reply of each partition, or its error."""
        try:
            due = await self._changed.due(group)
        except ViewsUnavailable as error:
            return dict.fromkeys(group, error)
        if due and await self._read(group, due):
            self._changed.distrust(group)
            await self._read(group, group)
        return {partition: self._latest[partition] for partition in group}

    async def _read(self, group: Group, due: Group) -> bool:
        """Read partitions; return whether one changed without a note."""
        is_surprised, by_hold = False, dict[float, list[int]]()
        for partition, reply in (await self._reads.read(self._function, due)).items():
            before = self._latest.get(partition)
            its = reply if isinstance(reply, ViewsUnavailable) else self._decode(reply)
            self._latest[partition] = its
            if isinstance(its, ViewsUnavailable):
                continue
            hold_s, is_noted = self._hold_s(its), self._changed.is_noted(partition)
            if is_noted:
                hold_s = min(hold_s, LEAST_HOLD_S)
            elif before is not None and not isinstance(before, ViewsUnavailable):
                is_surprised = is_surprised or self._noted(before) != self._noted(its)
            if hold_s > 0:
                by_hold.setdefault(hold_s, []).append(partition)
        for hold_s, partitions in by_hold.items():
            self._changed.note_read(group, partitions, hold_s)
        return is_surprised


class WatchedMarks:
    """The marks of live views, for one caller of a group at a time."""

    def __init__(self, reads: PartitionReads) -> None:
        self._reads = reads
        self._watched = WatchedReads(reads, "positions", "views", mark_of)

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        """Return the mark of each partition, or its error."""
        return await self._watched.read(group)

    async def all_marks(self, partitions: Iterable[int]) -> Mapping[int, Mark]:
        """Return the mark of each partition. Raises `ViewsUnavailable` if any cannot be read."""
        found = await asyncio.gather(*map(self._group_marks, self.groups(partitions)))
        return {partition: mark for marks in found for partition, mark in marks.items()}

    async def _group_marks(self, group: Group) -> Mapping[int, Mark]:
        return await self._reads.complete(await self.marks(group))


def _now() -> float:
    return asyncio.get_running_loop().time()
