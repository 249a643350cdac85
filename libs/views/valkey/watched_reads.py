"""Watches many partitions: replies of a function are kept, and read again only where something changed.

The functions of a server note in its memory which partitions they change (`valkey/changes.lua`). So while
nothing changes, a check costs one call for each server, and reads of a few partitions in turn. No promise depends
on the notes. The reads in turn find changes that they lack: by functions of another version, during an upgrade,
and of keys that were deleted or restored. After such a change, all partitions are read each second for a while.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from libs.concurrency.tasks import loop_time
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.partition_reads import ChangeKind, Group, Mark, PartitionReads, mark_of

IN_TURN_PER_S: Final = 16
"""Partitions of a server read in turn each second."""
LEAST_HOLD_S, LONGEST_HOLD_S = 1.0, 16.0
"""Bounds of the time until a partition is read again without a note of a change."""
DISTRUST_S: Final = 60.0
"""Time after a change that was not noted in which each partition is read after `LEAST_HOLD_S`."""

T = TypeVar("T")


@dataclass(slots=True)
class _Watched:
    """State of one group: `cursor` of its notes, and partitions that were never read or have `noted` changes.

    Times (of the event loop): those until which the reads of the others hold, and of the next reads in turn.
    """

    cursor: bytes = b""
    noted: set[int] = field(default_factory=set)
    until: dict[int, float] = field(default_factory=dict)
    turn_at: float = 0.0
    distrusts_until: float = 0.0


class ChangedPartitions:
    """The partitions that have to be read again."""

    def __init__(self, reads: PartitionReads, kind: ChangeKind) -> None:
        self._reads = reads
        self._kind = kind
        self._watched: dict[Group, _Watched] = {}

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def due(self, group: Group) -> Group:
        """Return the group's partitions that have to be read, until `note_read`. Raises `ViewsUnavailable`.

        After the server has changed or was restarted, these are all of them.
        """
        its, now = self._watched.get(group) or self._begin(group), loop_time()
        its.cursor, changed = await self._reads.changes(group, self._kind, its.cursor)
        its.noted.update(group if changed is None else changed)
        due = its.noted
        if now >= its.turn_at:
            its.turn_at = now + LEAST_HOLD_S
            due = due.union([each for each in group if its.until.get(each, 0.0) <= now])
        return tuple(sorted(due))

    def is_noted(self, group: Group, partition: int) -> bool:
        """Return whether it is due because a change was noted, or because it was never read."""
        its = self._watched.get(group)
        return its is None or partition in its.noted  # another group may have replaced this one during the read

    def note_read(self, group: Group, partitions: Collection[int], hold_s: float | None = None) -> None:
        """Note that these partitions were read after the latest `due`; each comes in turn at another time."""
        its, now = self._watched.get(group), loop_time()
        if its is None:
            return
        longest = min(LONGEST_HOLD_S, max(LEAST_HOLD_S, len(group) / IN_TURN_PER_S))
        if now < its.distrusts_until:
            longest = LEAST_HOLD_S
        each_s = (longest if hold_s is None else min(hold_s, longest)) / max(1, len(partitions))
        its.until.update({partition: now + at * each_s for at, partition in enumerate(partitions, 1)})
        its.noted.difference_update(partitions)

    def distrust(self, group: Group) -> None:
        """Have all partitions read: something changed that was not noted."""
        if (its := self._watched.get(group)) is None:
            return
        its.distrusts_until = loop_time() + DISTRUST_S
        its.noted.update(group)

    def _begin(self, group: Group) -> _Watched:
        """Begin to watch a group, which replaces others of its first partition."""
        self._watched = {former: its for former, its in self._watched.items() if group[0] not in former}
        return self._watched.setdefault(group, _Watched())


class WatchedReads(Generic[T]):
    """Reads a function (`PartitionReads.read`) of many partitions, for one caller of a group at a time."""

    def __init__(
        self,
        reads: PartitionReads,
        function: str,
        kind: ChangeKind,
        decode: Callable[[Any], T],
        hold_s: Callable[[T], float | None] = lambda _: None,
        noted: Callable[[T], object] = lambda reply: reply,
    ) -> None:
        """A reply holds until a change of that kind, for `hold_s(reply)` at most, or as long as possible (None).

        After a change it is read once more after `LEAST_HOLD_S`. `noted(reply)` is the part that changes only with
        a note.
        """
        self._reads = reads
        self._function = function
        self._decode = decode
        self._hold_s = hold_s
        self._noted = noted
        self._changed = ChangedPartitions(reads, kind)
        self._latest: dict[int, T] = {}

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def read(self, group: Group) -> Mapping[int, T | ViewsUnavailable]:
        """Return the replies that do not hold any longer, or their errors: at first, of all partitions."""
        try:
            due = await self._changed.due(group)
        except ViewsUnavailable as error:
            return dict.fromkeys(group, error)
        if not due:
            return {}
        found, is_surprised = await self._read(group, due)
        if is_surprised:
            self._changed.distrust(group)
            found, _ = await self._read(group, group)
        return found

    async def _read(self, group: Group, due: Group) -> tuple[Mapping[int, T | ViewsUnavailable], bool]:
        """Read partitions; return the replies, and whether one changed without a note."""
        found, is_surprised, by_hold = dict[int, T | ViewsUnavailable](), False, dict[float | None, list[int]]()
        for partition, reply in (await self._reads.read(self._function, due)).items():
            if isinstance(reply, ViewsUnavailable):
                found[partition] = reply
                continue
            its = found[partition] = self._decode(reply)
            hold_s, is_noted = self._hold_s(its), self._changed.is_noted(group, partition)
            if is_noted and hold_s is None:
                hold_s = LEAST_HOLD_S
            if not is_noted and partition in self._latest:
                is_surprised = is_surprised or self._noted(self._latest[partition]) != self._noted(its)
            self._latest[partition] = its
            by_hold.setdefault(hold_s, []).append(partition)
        for hold_s, partitions in by_hold.items():
            if hold_s != 0:
                self._changed.note_read(group, partitions, hold_s)
        return found, is_surprised


class WatchedMarks(WatchedReads[Mark]):
    """The marks of live views, for one caller of a group at a time."""

    def __init__(self, reads: PartitionReads) -> None:
        super().__init__(reads, "positions", "views", mark_of)

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        """Return the marks that may have changed since the last call, or their errors."""
        return await self.read(group)

    async def changed_marks(self, partitions: Iterable[int]) -> Mapping[int, Mark]:
        """Return the marks that may have changed since the last call, as `marks`. Raises `ViewsUnavailable`."""
        found = await asyncio.gather(*map(self._group_marks, self.groups(partitions)))
        return {partition: mark for marks in found for partition, mark in marks.items()}

    async def _group_marks(self, group: Group) -> Mapping[int, Mark]:
        return await self._reads.complete(await self.marks(group), group)
