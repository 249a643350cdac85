"""Reads of many partitions by one call for each server: watching them costs a process the same for any number.

A function of this kind (`register_read_each` in `valkey/functions.lua`) returns a reply for each partition;
some take an argument for each. On a cluster the partitions lie in several slots of a server, and while one is
moved, its reply is an error: that partition has to be read by a call of its own, which the client sends to the
right server.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterable, Mapping
from itertools import chain
from typing import Any, Final, Literal, NamedTuple, TypeVar

import hiredis

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey.client import Valkey
from libs.views.valkey.connection import part_error
from libs.views.valkey.function_libraries import read_function
from libs.views.valkey.hash_tags import Prefix

MOST_AT_ONCE: Final = 256
"""Maximum number of partitions of one call: less than 1 ms of Valkey's time."""

T = TypeVar("T")
Group = tuple[int, ...]
"""Partitions that are read by one call."""

ChangeKind = Literal["views", "gates"]
"""Changes of a partition: of its live view (folds, swaps), or of its gate."""


class Mark(NamedTuple):
    """A view's position, None before the first fold; the number of its swaps for another generation, and of those
    swaps that began it again, since the log had lost records."""

    position: Position | None
    swaps: int
    losses: int = 0


class PartitionReads:
    """Reads the partitions of one topic."""

    def __init__(self, valkey: Valkey, prefix: Prefix, base: Callable[[int], str]) -> None:
        """`prefix` is that of the functions' names; `base(partition)` that of a partition's keys."""
        self._valkey = valkey
        self._prefix = prefix
        self._base = base
        self._grouped: tuple[Group, list[Group]] = (), []

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        """Divide partitions by the server that holds them now."""
        every = tuple(partitions)
        if self._valkey.is_cluster or every != self._grouped[0]:
            self._grouped = every, self.divided(every)
        return self._grouped[1]

    def divided(self, partitions: Iterable[int], most: int = MOST_AT_ONCE) -> list[Group]:
        """Divide partitions as `groups` does, with at most so many in a group."""
        held: dict[Hashable, list[int]] = {}
        for partition in partitions:
            held.setdefault(self._valkey.server_of(self._base(partition)), []).append(partition)
        return [tuple(numbers[at : at + most]) for numbers in held.values() for at in range(0, len(numbers), most)]

    async def read(
        self, function: str, group: Group, arguments: Mapping[int, Any] | None = None
    ) -> Mapping[int, Any]:
        """Return the reply of each partition, or its `ViewsUnavailable`; some functions take `arguments`."""
        try:
            return await self._call(function, group, arguments)
        except ViewsUnavailable as error:
            return dict.fromkeys(group, error)

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        """Return the marks of the live views: equal marks mean equal content."""
        return {partition: _mark(reply) for partition, reply in (await self.read("positions", group)).items()}

    async def any_mark(self, group: Group) -> Mark:
        """Return the mark of one partition of the group. Raises `ViewsUnavailable` if none can be read."""
        marks = [*(await self.marks(group)).values()]
        return raised(next((mark for mark in marks if isinstance(mark, Mark)), marks[0]))

    async def all_marks(self, partitions: Iterable[int]) -> Mapping[int, Mark]:
        """Return the mark of each partition. Raises `ViewsUnavailable` if any cannot be read."""
        found = await asyncio.gather(*map(self._group_marks, self.groups(partitions)))
        return {partition: mark for marks in found for partition, mark in marks.items()}

    async def complete(self, marks: Mapping[int, Mark | ViewsUnavailable], group: Group) -> Mapping[int, Mark]:
        """Read marks of a group again that could not be read together with the others. Raises as `all_marks`."""
        return await completed(marks, len(group), self.marks)

    async def changes(self, group: Group, kind: ChangeKind, cursor: bytes) -> tuple[bytes, Collection[int] | None]:
        """Return the next cursor, and the group's partitions that this version's functions changed since `cursor`.

        None instead of the partitions: that is not known. Raises `ViewsUnavailable`.
        """
        first = self._base(group[0])
        reply = await read_function(self._valkey, f"{self._prefix}_noted_changes", first, kind, cursor)
        if len(reply) == 1:
            return reply[0], None
        changed = {*reply[1]}
        return reply[0], [each for each in group if self._base(each).encode() in changed] if changed else []

    async def _group_marks(self, group: Group) -> Mapping[int, Mark]:
        return await self.complete(await self.marks(group), group)

    async def _call(self, function: str, group: Group, arguments: Mapping[int, Any] | None) -> Mapping[int, Any]:
        first, *others = map(self._base, group)
        if arguments is not None:
            own, *rest = (arguments[partition] for partition in group)
            others = [own, *chain.from_iterable(zip(others, rest, strict=True))]
        replies = await read_function(self._valkey, f"{self._prefix}_{function}", first, *others)
        return {
            partition: part_error(reply) if isinstance(reply, hiredis.ReplyError) else reply
            for partition, reply in zip(group, replies, strict=True)
        }


async def completed(
    replies: Mapping[int, T | ViewsUnavailable],
    asked: int,
    read: Callable[[Group], Awaitable[Mapping[int, T | ViewsUnavailable]]],
) -> Mapping[int, T]:
    """Read partitions again, each alone, that failed in a call for `asked` of them; raise what is left of errors.

    Nothing is read again if all have failed.
    """
    failed = [partition for partition, reply in replies.items() if isinstance(reply, ViewsUnavailable)]
    found = dict(replies)
    if 0 < len(failed) < asked:
        for one in await asyncio.gather(*(read((partition,)) for partition in failed)):
            found.update(one)
    return {partition: raised(reply) for partition, reply in found.items()}


def raised(reply: T | ViewsUnavailable) -> T:
    """Return a reply; raise it if it is an error."""
    if isinstance(reply, ViewsUnavailable):
        raise reply
    return reply


def mark_of(reply: Any) -> Mark:
    """Decode a reply of the function `positions`."""
    log, offset, swaps, losses = reply
    return Mark(Position(log.decode(), offset) if log else None, swaps, losses)


def _mark(reply: Any) -> Mark | ViewsUnavailable:
    return reply if isinstance(reply, ViewsUnavailable) else mark_of(reply)
