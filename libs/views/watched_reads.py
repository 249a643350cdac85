"""Watches many partitions: replies of a function are kept, and read again only where something changed.

The functions of a server note in its memory which partitions they change (`lua/shared/changes.lua`). So while
nothing changes, a look costs one call for each server, for any number of partitions. No promise depends on these
notes: changes that they lack are found by reading all partitions every `ALL_S`. These are changes by functions of
another version, during an upgrade, and keys that were deleted or restored.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from libs.tally.errors import ViewsUnavailable
from libs.views.partition_reads import ChangeKind, Group, Mark, PartitionReads, mark_of

ALL_S: Final = 1.0
"""Maximum seconds between two reads of all partitions."""

T = TypeVar("T")


@dataclass(slots=True)
class _Watched:
    """The partitions of a group that have to be read, since the changes up to `cursor` are known."""

    cursor: bytes = b""
    all_at: float = 0.0
    due: set[int] = field(default_factory=set)


class ChangedPartitions:
    """The partitions that may have changed since they were read."""

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
        watched = self._watched.get(group) or self._watch(group)
        now = asyncio.get_running_loop().time()
        watched.cursor, changed = await self._reads.changes(group, self._kind, watched.cursor)
        if changed is None or now >= watched.all_at:
            watched.due.update(group)
            watched.all_at = now + ALL_S
        else:
            watched.due.update(changed)
        return tuple(sorted(watched.due))

    def note_read(self, group: Group, partitions: Collection[int]) -> None:
        """Note that these partitions were read after the latest `due`."""
        self._watched[group].due.difference_update(partitions)

    def _watch(self, group: Group) -> _Watched:
        """Begin to watch a group, which replaces others of its first partition."""
        self._watched = {former: its for former, its in self._watched.items() if group[0] not in former}
        return self._watched.setdefault(group, _Watched())


class WatchedReads(Generic[T]):
    """The latest replies of a function (`PartitionReads.read`), for one caller at a time."""

    def __init__(
        self,
        reads: PartitionReads,
        function: str,
        kind: ChangeKind,
        decode: Callable[[Any], T],
        is_settled: Callable[[T], bool],
    ) -> None:
        """Only changes of this kind change replies that are settled; the others are read by each call."""
        self._reads = reads
        self._function = function
        self._decode = decode
        self._is_settled = is_settled
        self._changed = ChangedPartitions(reads, kind)
        self._latest: dict[int, T | ViewsUnavailable] = {}

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._reads.groups(partitions)

    async def read(self, group: Group) -> Mapping[int, T | ViewsUnavailable]:
        """Return the reply of each partition, or its error; a change that was not noted is at most `ALL_S` old."""
        try:
            due = await self._changed.due(group)
        except ViewsUnavailable as error:
            return dict.fromkeys(group, error)
        settled = []
        for partition, reply in (await self._reads.read(self._function, due) if due else {}).items():
            its = reply if isinstance(reply, ViewsUnavailable) else self._decode(reply)
            self._latest[partition] = its
            if not isinstance(its, ViewsUnavailable) and self._is_settled(its):
                settled.append(partition)
        self._changed.note_read(group, settled)
        return {partition: self._latest[partition] for partition in group}


class WatchedMarks:
    """The marks of live views, for one caller at a time."""

    def __init__(self, reads: PartitionReads) -> None:
        self._reads = reads
        self._watched = WatchedReads(reads, "positions", "views", mark_of, lambda _: True)

    async def all_marks(self, partitions: Iterable[int]) -> Mapping[int, Mark]:
        """Return the mark of each partition. Raises `ViewsUnavailable` if any cannot be read."""
        found = await asyncio.gather(*map(self._group_marks, self._watched.groups(partitions)))
        return {partition: mark for marks in found for partition, mark in marks.items()}

    async def _group_marks(self, group: Group) -> Mapping[int, Mark]:
        return await self._reads.complete(await self._watched.read(group))
