"""Freshness of views: reads fail while a view may be older than earlier answers.

A Valkey that was emptied, or restarted from an older state, would answer that records are absent, or return old
ones. A projector declares a view fresh once its server has, in its current run, folded the log up to its end
(`generations/reads.lua`).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from libs.contracts.log_records import Position
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import call_function, read_function
from libs.views.valkey.hash_tags import Prefix
from libs.views.valkey.partition_reads import Group, PartitionReads
from libs.views.valkey.watched_reads import WatchedReads


class Freshness(NamedTuple):
    """Freshness of the live view in the server's current `run`."""

    run: str
    is_fresh: bool


class FreshReader:
    """Reads the live views of one topic, each read with the same check.

    An answer is rejected if the view is not fresh, or its position is before that of an earlier answer. So every
    answer contains all that was read or acknowledged before. Assumptions: the keys of a partition are lost only
    together, and no client is connected to an isolated primary while its successor writes.
    """

    def __init__(self, valkey: Valkey, prefix: Prefix, base: Callable[[int], str]) -> None:
        """Create a reader; `base` returns the prefix of a partition's keys."""
        self._valkey = valkey
        self._prefix = prefix
        self._base = base
        self._each = PartitionReads(valkey, prefix, base)
        self._watched = WatchedReads(self._each, "fresh", "views", bool, _fresh_holds_s)
        self._seen: dict[int, Position] = {}

    async def read(self, function: str, partition: int, *args: Any) -> Any:
        """Return the reply of one function. Raises `ViewsUnavailable`, also if the view is not fresh."""
        return (await self.read_at(function, partition, *args))[1]

    async def read_at(self, function: str, partition: int, *args: Any) -> tuple[Position, Any]:
        """Return the view's position and the reply. Raises as `read`."""
        seen = self._seen.get(partition)  # before the call: answers of concurrent calls may overtake one another
        name = f"{self._prefix}_{function}"
        is_fresh, log, offset, *reply = await read_function(self._valkey, name, self._base(partition), *args)
        position = Position(log.decode(), int(offset))
        if not is_fresh or is_behind(position, seen):
            raise ViewsUnavailable(RECOVERING, retry_after_s=1)
        if not is_behind(position, self._seen.get(partition)):
            self._seen[partition] = position
        return position, reply[0]

    async def view(self, partition: int, command: str, key: str, *args: Any) -> Any:
        """Return the reply of a command that reads a key within the view. Raises as `read`."""
        return await self.read("view", partition, command, key, *args)

    def groups(self, partitions: Iterable[int]) -> list[Group]:
        return self._each.groups(partitions)

    async def stale(self, group: Group) -> list[int]:
        """Return the group's views that are not fresh, or cannot be read together with the others.

        One that was emptied is returned some seconds later. For one caller at a time.
        """
        return [partition for partition, reply in (await self._watched.read(group)).items() if reply is not True]

    async def freshness(self, partition: int) -> Freshness:
        run, is_fresh = await read_function(self._valkey, f"{self._prefix}_freshness", self._base(partition))
        return Freshness(run.decode(), is_fresh == 1)

    async def declare(self, partition: int, run: str, end: Position) -> bool:
        """Declare the view fresh if it has reached `end`, the log's end as read after `run`.

        False if it has not, or if the server was restarted.
        """
        name = f"{self._prefix}_declare_fresh"
        return bool(await call_function(self._valkey, name, self._base(partition), run, *end) == 1)


def _fresh_holds_s(is_fresh: bool) -> float | None:
    return None if is_fresh else 0.0


def is_behind(position: Position | None, seen: Position | None) -> bool:
    """Return whether a view at `position` is behind the position `seen` before in the same log."""
    if seen is None:
        return False
    return position is None or (position.log_id == seen.log_id and position.offset < seen.offset)
