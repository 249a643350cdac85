"""Folds in Python: computed from the contents of a generation, and written with its position by one call.

The call writes only if the generation is at the position, and has had as many calls, as when it was read
(`generations/generations.lua`): so neither another process's writes nor a loss of one's own goes unnoticed. What
it holds is a function of the log up to its position. A crash between any two calls leaves whole events and the
position after them: that of an event that takes several calls follows with the last one, and folding it again
does only what is left.

An event can leave work that no reader and no later event can tell from done work, such as the removal of what it
hides. A part of that is done before each batch of events, and by `clean_up` between them: it delays no event.

Generations that follow are written before the live one, each by what itself holds. So after a crash they are
ahead, not behind, and a swap, which compares the positions, waits until the live one has caught up.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec import MsgspecError

from libs.contracts.catalogue_events import OperatorActed
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Behind, LogRecord, Position
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated, LogLost
from libs.views.generations.fresh_reader import FreshReader
from libs.views.generations.generations import Generation, GenerationGone, Generations, PartitionGenerations, State
from libs.views.valkey.function_libraries import call_function, pack
from libs.views.valkey.partition_reads import PartitionReads

E = TypeVar("E")
Entries = Sequence[tuple[LogRecord, E | Undecodable]]
REASON_SIZE = 500
"""Characters of the reason for which a record is in the quarantine."""
STORED_WRONG = "WRONGTYPE", "not an integer"
"""In errors of Valkey that a generation's stored values cause."""
READ_TOGETHER = 1_000
NUL = "\0"
"""Separates the parts of a name that is no key."""
WRITTEN = 1
"""First part of the reply of a call that wrote; alone, or followed by the generation's state."""
BEFORE = b"before"
"""Second part, if these records were folded before."""


class _Moved(Exception):
    """The generation is another one, or elsewhere, than when it was read: compute again."""


class ComputedFold(ABC, Generic[E]):
    """A fold into one generation of a partition. `clock` (us) stamps each change and strictly increases.

    Fields of hashes are read through a cache that has what is still to be written; other reads write that first.
    """

    is_work_left = False
    """True if events left work that is still to be done."""

    def __init__(self, generations: Generations, partition: int, live: int) -> None:
        """`live` is the number of the generation that readers get."""
        self._generations = generations
        self._partition = partition
        self._live = live

    async def fold(
        self, number: int, start: Position, entries: Entries[E], end: int, *, others_break: bool = False
    ) -> bool:
        """Fold entries into generation `number`, which is at `start`; return whether work is left.

        `others_break`: those that follow and lack these records are not folded any more. Raises `_Moved` if the
        generation is elsewhere by now.
        """
        self._number, self._log, self._others_break = number, start.log_id, others_break
        self._folded = self._end = start.offset
        self._fields: dict[tuple[str, str], bytes | None] = {}
        self._writes: list[list[Any]] = []
        self._calls = int(await self._call("GET", "calls") or 0)
        await self.load(("position", "time"), ("position", "clock"))
        self.time = int(await self.hget("position", "time") or 0)
        self.clock = int(await self.hget("position", "clock") or 0)
        await self.begin(entries)
        for record, event in entries:
            self.time = max(self.time, record.timestamp_ms)
            match event:
                case Undecodable():
                    self.hset("quarantine", str(record.offset), event.reason[:REASON_SIZE])
                    self.write("HINCRBY", "position", "poison", 1)
                case LogCreated() | LogLost() | OperatorActed():
                    pass
                case _:
                    await self.fold_event(event, record.offset)
            self._end = record.offset + 1
            self.write("HSET", "position", "time", self.time, "clock", self.clock, "offset", self._end)
        self._end = end
        await self.flush()
        return self.is_work_left

    async def begin(self, entries: Entries[E]) -> None:
        """Do a part of the work that is left, and read what these events need."""

    @abstractmethod
    async def fold_event(self, event: E, offset: int) -> None: ...

    def next_moment(self, at: int) -> int:
        """Return the time (us) of a change by an event of time `at`: after all others, not ahead of the broker."""
        return max(self.clock + 1, min(at, self.time * 1000 + 999))

    async def load(self, *fields: tuple[str, str]) -> None:
        """Read fields of hashes together."""
        unknown = [field for field in dict.fromkeys(fields) if field not in self._fields]
        for at in range(0, len(unknown), READ_TOGETHER):
            some = unknown[at : at + READ_TOGETHER]
            found = await asyncio.gather(*(self._call("HGET", *field) for field in some))
            self._fields |= zip(some, found, strict=True)

    def forget(self) -> None:
        """Forget what was read, once all is written: an event that takes many calls reads more than fits."""
        assert not self._writes
        self._fields.clear()

    async def hget(self, key: str, field: str) -> bytes | None:
        await self.load((key, field))
        return self._fields[key, field]

    def hset(self, key: str, field: str, value: bytes | str | int) -> None:
        self._fields[key, field] = value if isinstance(value, bytes) else str(value).encode()
        self.write("HSET", key, field, value)

    def hdel(self, key: str, field: str) -> None:
        self._fields[key, field] = None
        self.write("HDEL", key, field)

    def write(self, command: str, key: str, *args: Any) -> None:
        """Write something that `hget` does not read."""
        self._writes.append([command, key, *(str(arg) if isinstance(arg, int) else arg for arg in args)])

    async def read(self, command: str, key: str, *args: Any) -> Any:
        [reply] = await self.read_each(command, [key], *args)
        return reply

    async def read_each(self, command: str, keys: Iterable[str], *args: Any) -> list[Any]:
        await self.flush()
        return await asyncio.gather(*(self._call(command, key, *args) for key in keys))

    async def flush(self) -> None:
        """Write all so far; what an event wrote is written with the position after it. Raises `_Moved`."""
        if not self._writes and self._folded == self._end:
            return
        is_live = self._number == self._live
        function = f"{self._generations.prefix}_{'apply' if is_live else 'fold'}"
        args = (
            self._log,
            self._folded,
            self._end,
            pack(self._writes),
            self._number,
            int(self._others_break),
            self._calls,
        )
        reply = await call_function(
            self._generations.valkey, function, self._generations.base(self._partition), *args
        )
        if reply[0] != WRITTEN or BEFORE in reply:
            raise _Moved
        self._folded, self._writes, self._calls = self._end, [], self._calls + 1

    async def _call(self, command: str, key: str, *args: Any) -> Any:
        base = self._generations.base(self._partition)
        return await self._generations.valkey.call(command, f"{base}:g{self._number}:{key}", *args)


class ComputedViews(Generic[E]):
    """Views of a topic whose fold is computed. With a `generation`, `position` and `apply` use that one."""

    def __init__(
        self,
        generations: Generations,
        new_fold: Callable[[Generations, int, int], ComputedFold[E]],
        generation: int | None = None,
    ) -> None:
        self.generations = generations
        self.fresh = FreshReader(generations.valkey, generations.prefix, generations.base)
        self.live = PartitionReads(generations.valkey, generations.prefix, generations.base)
        self._new_fold = new_fold
        self._generation = generation

    async def position(self, partition: int) -> Position | None:
        """Return the position up to which `partition` is folded; None if nothing is."""
        if self._generation is None:
            return (await self.live.any_mark((partition,))).position
        found = (await self.generations.read(partition)).get(self._generation)
        return None if found is None else found.position

    async def apply(self, partition: int, start: Position, entries: Entries[E], end: int) -> bool:
        """Fold entries and store `end` as the next offset, by several calls, each of which takes whole events.

        Folds into the live generation and those that follow it, or only into that of this object. A repeated batch
        changes nothing. Return whether work is left to `clean_up`: none of an object's own generation. Raises
        `Behind` if the view is at another position than `start`, and `GenerationGone`.
        """
        while True:
            known = await self.generations.read(partition)
            fold = self._new_fold(self.generations, partition, known.live.number)
            try:
                if (number := self._generation) is not None:
                    target = known.others.get(number)
                    if target is None or target.state in (State.BROKEN, State.OTHER_LAYOUT):
                        raise GenerationGone.of(number, self.generations.base(partition))
                    at, is_work_left = target.position, True
                    if not _is_folded(target, start, end):
                        at, is_work_left = (
                            Position(start.log_id, end),
                            await fold.fold(number, start, entries, end),
                        )
                    while is_work_left:
                        assert at is not None
                        is_work_left = await fold.fold(number, at, (), at.offset)
                elif known.live.schema != known.schema:
                    await self.live.any_mark((partition,))  # raises `OtherLayout`, unless it was swapped since
                    continue
                elif not _is_folded(known.live, start, end):
                    return await _fold_all(fold, known, start, entries, end)
                return False
            except _Moved:
                continue

    async def clean_up(self, partition: int) -> bool:
        """Do a part of the work that folded events left, where readers and folds do not see it; return whether
        more is left. Each generation that is folded with the live one has its own."""
        known = await self.generations.read(partition)
        if known.live.schema != known.schema or known.live.position is None:
            return False
        fold, more = self._new_fold(self.generations, partition, known.live.number), False
        for one in (*_followers(known), known.live):
            assert one.position is not None
            try:
                more |= await fold.fold(one.number, one.position, (), one.position.offset)
            except _Moved:
                more = True
            except (MsgspecError, ValueError, ViewsUnavailable) as error:
                if one is known.live or not _is_broken(error):
                    raise
        return more


async def _fold_all(
    fold: ComputedFold[E], known: PartitionGenerations, start: Position, entries: Entries[E], end: int
) -> bool:
    """Fold into the generations that follow, then into the live one, which one that is broken does not stop.

    Return whether one of them has work left.
    """
    is_one_broken = is_work_left = False
    for other in _followers(known):
        at = other.position
        if at is not None and at.log_id == start.log_id and start.offset <= at.offset < end:
            try:
                rest = [entry for entry in entries if entry[0].offset >= at.offset]
                is_work_left |= await fold.fold(other.number, at, rest, end)
            except (MsgspecError, ValueError, ViewsUnavailable) as error:
                if not _is_broken(error):
                    raise
                is_one_broken = True
    return is_work_left | await fold.fold(known.live.number, start, entries, end, others_break=is_one_broken)


def _followers(known: PartitionGenerations) -> list[Generation]:
    """Return the generations that are folded together with the live one."""
    states = State.FOLLOWING, State.KEPT
    return [one for one in known.others.values() if one.state in states and one.position is not None]


def _is_broken(error: Exception) -> bool:
    """Return whether an error comes from what a generation holds."""
    return not isinstance(error, ViewsUnavailable) or any(text in str(error) for text in STORED_WRONG)


def parts_of(name: bytes) -> tuple[str, str]:
    """Return the two parts of a name, which NUL separates."""
    first, _, second = name.decode().partition(NUL)
    return first, second


def _is_folded(generation: Generation, start: Position, end: int) -> bool:
    """Return whether a generation has folded up to `end`. Raises `Behind` if it is not at `start` either."""
    stored = generation.position
    if stored is not None and stored.log_id == start.log_id and stored.offset >= end:
        return True
    if start.offset != (stored.offset if stored else 0) or (stored and stored.log_id != start.log_id):
        raise Behind(stored)
    return False
