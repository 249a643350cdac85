"""Reads of many partitions by one call for each server: watching them costs a process the same for any number.

A function of this kind (`register_read_each` in `lua/shared/functions.lua`) returns a reply for each partition. On
a cluster the partitions lie in several slots of a server, and while one is moved, its reply is an error: that
partition has to be read by a call of its own, which the client sends to the right server.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import hiredis

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.client import Valkey
from libs.views.connection import part_error
from libs.views.function_libraries import read_function
from libs.views.hash_tags import Prefix

MOST_AT_ONCE: Final = 256
"""Maximum number of partitions of one call: less than 1 ms of Valkey's time."""

Group = tuple[int, ...]
"""Partitions that are read by one call."""


class Mark(NamedTuple):
    """A view's position, None before the first fold, and the number of its swaps for another generation."""

    position: Position | None
    swaps: int


class PartitionReads:
    """Reads the partitions of one topic."""

    def __init__(self, valkey: Valkey, prefix: Prefix, base: Callable[[int], str]) -> None:
        """`prefix` is that of the functions' names; `base(partition)` that of a partition's keys."""
        self._valkey = valkey
        self._prefix = prefix
        self._base = base

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        """Divide partitions by the server that holds them now."""
        held: dict[Hashable, list[int]] = {}
        for partition in partitions:
            held.setdefault(self._valkey.server_of(self._base(partition)), []).append(partition)
        return [
            tuple(numbers[at : at + MOST_AT_ONCE])
            for numbers in held.values()
            for at in range(0, len(numbers), MOST_AT_ONCE)
        ]

    async def read(self, function: str, group: Group) -> Mapping[int, Any]:
        """Return the reply of each partition, or its `ViewsUnavailable`."""
        try:
            return await self._call(function, group)
        except ViewsUnavailable as error:
            return dict.fromkeys(group, error)

    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        """Return the marks of the live views: equal marks mean equal content."""
        return {partition: _mark(reply) for partition, reply in (await self.read("positions", group)).items()}

    async def any_mark(self, group: Group) -> Mark:
        """Return the mark of one partition of the group. Raises `ViewsUnavailable` if none can be read."""
        marks = [*(await self.marks(group)).values()]
        return _known(next((mark for mark in marks if isinstance(mark, Mark)), marks[0]))

    async def all_marks(self, partitions: Iterable[int]) -> Mapping[int, Mark]:
        """Return the mark of each partition. Raises `ViewsUnavailable` if any cannot be read."""
        found = await asyncio.gather(*map(self._known_marks, self.groups(partitions)))
        return {partition: mark for marks in found for partition, mark in marks.items()}

    async def _known_marks(self, group: Group) -> Mapping[int, Mark]:
        found: dict[int, Mark] = {}
        for partition, reply in (await self._call("positions", group)).items():
            mark = _mark(reply)
            if isinstance(mark, ViewsUnavailable) and len(group) > 1:
                [mark] = (await self.marks((partition,))).values()
            found[partition] = _known(mark)
        return found

    async def _call(self, function: str, group: Group) -> Mapping[int, Any]:
        first, *others = map(self._base, group)
        replies = await read_function(self._valkey, f"{self._prefix}_{function}", first, *others)
        return {
            partition: part_error(reply) if isinstance(reply, hiredis.ReplyError) else reply
            for partition, reply in zip(group, replies, strict=True)
        }


def _mark(reply: Any) -> Mark | ViewsUnavailable:
    if isinstance(reply, ViewsUnavailable):
        return reply
    log, offset, swaps = reply
    return Mark(Position(log.decode(), offset) if log else None, swaps)


def _known(mark: Mark | ViewsUnavailable) -> Mark:
    if isinstance(mark, ViewsUnavailable):
        raise mark
    return mark
