"""The generations of one topic's views: opened, folded, swapped and dropped (`lua/shared/generations.lua`)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal, NamedTuple, Self

from libs.contracts.log_records import Behind, Position
from libs.contracts.topics import Topic
from libs.tally.errors import TallyError
from libs.views.client import Valkey
from libs.views.serialization import glob_escaped, pack, unpack

Prefix = Literal["votes", "catalogue", "purchases"]
"""Of the names of one library's functions."""
TAGS: Final[dict[Prefix, str]] = {"votes": "", "catalogue": "c", "purchases": "q"}
"""What stands before the partition in a hash tag."""
TIMELINE: Final = "*timeline"
"""The scope of a votes generation that is folded for its timeline alone; it can be no contest's key."""
SCANNED: Final = 1_000
WIDTH: Final = 9


class State(StrEnum):
    LIVE = "live"
    BUILDING = "building"
    """Being folded by a replay."""
    FOLLOWING = "following"
    """Folded together with the live one, in the same call."""
    KEPT = "kept"
    """The same, of what was read before, or was swapped back. There is one at most."""
    SIDE = "side"
    """To be looked at only, as of some earlier time."""
    BROKEN = "broken"
    """It cannot be folded any further, or by other code only."""


class GenerationGone(TallyError):
    """The generation is not there, or broken: it was dropped, or Valkey lost it."""

    code = "views_unavailable"

    @classmethod
    def of(cls, number: int | None, base: str) -> Self:
        return cls(f"Generation {number} of {base} is gone, or broken. Start the replay anew.")


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of one partition. `scope` is "" or the contest that alone is folded into it.

    `schema` is the layout of what is stored, `read` whether what it was opened for is what readers see. `position`
    is None while nothing was folded. `kept_since` is when it was swapped (seconds since 1970; None: it is not
    kept), `held` whether it is kept until somebody drops it.
    """

    number: int
    state: State
    scope: str
    schema: int
    read: bool
    position: Position | None
    kept_since: int | None = None
    held: bool = False


@dataclass(frozen=True, slots=True)
class PartitionGenerations:
    """All of one partition. `swaps` counts how often what is read was exchanged, `last` is the highest number that
    was ever given, `schema` the layout that the running code reads."""

    swaps: int
    last: int
    schema: int
    live: Generation
    others: dict[int, Generation]

    def get(self, number: int) -> Generation | None:
        return self.live if number == self.live.number else self.others.get(number)

    def offset_of(self, number: int) -> int:
        """How far a generation is folded; 0 also where there is none of that number."""
        one = self.get(number)
        return 0 if one is None or one.position is None else one.position.offset


class Differing(NamedTuple):
    """A part of a key that two generations hold differently; `live` or `other` is "" where it is missing."""

    partition: int
    key: str
    field: str
    live: bytes
    other: bytes


class Moving(Exception):
    """The two generations stand at different positions just now: ask again."""


class FencesDiffer(TallyError):
    """The generation was folded by other fences than the live one: accepted votes would count no more."""

    code = "fences_differ"

    @classmethod
    def of(cls, number: int, partition: str) -> Self:
        return cls(
            f"Generation {number} of {partition} was folded by other fences (records that end doubt about earlier "
            "votes) than the live view, since one of them was in quarantine: accepted votes could count no more. "
            "--accept-differences swaps all the same; voting in that partition goes on after a new fence."
        )


class AnotherIsKept(TallyError):
    """Readers cannot be given another generation: the former one is to be kept, and two at most are folded."""

    code = "generation_kept"

    @classmethod
    def of(cls, number: int, topic: str) -> Self:
        return cls(
            f"Generation {number} of {topic} is kept until it is dropped, and only one is kept. "
            "`tally replay drop --execute` drops it, `tally replay keep --no-hold --execute` lets it go."
        )


FENCES_DIFFER: Final = "fences differ"
ANOTHER_IS_KEPT: Final = "another is kept"


class Swap(NamedTuple):
    """Whether the generation is read now; else why not.

    That is its state, "gone", FENCES_DIFFER, ANOTHER_IS_KEPT, or "moving": try again.
    """

    done: bool
    reason: str = ""


class Generations:
    """Raises `ViewsUnavailable` when Valkey is away."""

    def __init__(self, valkey: Valkey, namespace: str, prefix: Prefix, topic: Topic) -> None:
        self.topic = topic
        self.prefix = prefix
        self._valkey = valkey
        self._namespace = namespace

    def base(self, partition: int) -> str:
        return f"{self._namespace}:{{{TAGS[self.prefix]}{partition}}}"

    async def read(self, partition: int) -> PartitionGenerations:
        reply = await self._valkey.call("FCALL_RO", f"{self.prefix}_generations", 1, self.base(partition))
        _, swaps, last, schema, *flat = unpack(reply)
        live, *others = _rows(flat)
        return PartitionGenerations(swaps, last, schema, live, {one.number: one for one in others})

    async def read_all(self) -> list[PartitionGenerations]:
        """By partition."""
        return await asyncio.gather(*(self.read(partition) for partition in range(self.topic.partitions)))

    async def scope(self, number: int) -> str | None:
        """Of a generation; None where no partition has one of that number."""
        found = (partition.get(number) for partition in await self.read_all())
        return next((one.scope for one in found if one is not None), None)

    async def open(self, partition: int, number: int, scope: str = "", *, side: bool = False) -> bool:
        """Whether it is open now, for this purpose; False where the number was given to another."""
        return bool(await self._call("open", partition, number, scope, int(side)))

    async def swap(self, partition: int, number: int, *, read: bool = True, accept: bool = False) -> Swap:
        """Have readers see what the generation holds; `read` False: no more (of one with a narrower scope).

        `accept`: also where votes were folded by other fences; then the gate is shut until the next fence.
        """
        done, *reason = await self._call("swap", partition, number, int(read), int(accept))
        return Swap(bool(done), reason[0].decode() if reason else "")

    async def touch(self, partition: int, number: int, position: Position) -> State:
        """Fold nothing into the generation, which stands at `position`; what that makes of it."""
        args = position.log_id, position.offset, position.offset, pack([]), number
        reply = await self._call("fold", partition, *args)
        if reply[0] == -1:
            raise GenerationGone.of(number, self.base(partition))
        return State(reply[-1].decode())

    async def differences(self, partition: int, number: int, names: Collection[str]) -> AsyncIterator[Differing]:
        """What the generation holds otherwise than the live one, in the keys of these names.

        Each page of a key is compared where both stand at the same position. Raises `Moving`.
        """
        for name in names:
            for which in ("live", "other"):
                cursor: bytes | None = b"0"
                while cursor is not None:
                    args = self.base(partition), number, name, cursor, which
                    reply = unpack(await self._valkey.call("FCALL_RO", f"{self.prefix}_compare", 1, *args))
                    if len(reply) == 1:
                        raise Moving
                    cursor = None if reply[0] == b"0" else reply[0]
                    for field, live, other in zip(*(reply[1][at::3] for at in range(3)), strict=True):
                        yield Differing(partition, name, field.decode(errors="replace"), live, other)

    async def names(self, numbers: Collection[int]) -> dict[int, set[str]]:
        """By partition, the names of the keys within these generations."""
        found: dict[int, set[str]] = {}
        for partition, number, key in await self._keys():
            if number in numbers:
                found.setdefault(partition, set()).add(key.decode().partition("}:g")[2].partition(":")[2])
        return found

    async def drop(self, partition: int, number: int) -> None:
        """Fold it no further. `sweep` deletes what it holds. The live one is never dropped."""
        await self._call("drop", partition, number)

    async def hold(self, partition: int, number: int, until_dropped: bool | None = None) -> bool:
        """Begin anew the time for which it is kept; False where none of that number is kept.

        `until_dropped`: whether it is kept until somebody drops it; None leaves that as it is.
        """
        return bool(
            await self._call("hold", partition, number, "" if until_dropped is None else int(until_dropped))
        )

    async def expire(self, partition: int, after_s: int) -> list[int]:
        """Drop what has been kept for longer, unless it is to be kept until somebody drops it; its numbers."""
        return list(await self._call("expire", partition, after_s))

    async def sweep(self) -> int:
        """Delete what generations hold that are not open any more; how many keys that were.

        One that is opened meanwhile has a number that was not given before.
        """
        known = await self.read_all()
        swept = 0
        for partition, number, key in await self._keys():
            if number <= known[partition].last and known[partition].get(number) is None:
                swept += await self._valkey.call("UNLINK", key)
        return swept

    async def memory(self, number: int, scope: str = "") -> int:
        """Bytes that a generation takes, about: long hashes are judged by a few of their fields."""
        names = [key for _, its, key in await self._keys() if its == number and key.endswith(scope.encode())]
        sizes = await asyncio.gather(*(self._valkey.call("MEMORY", "USAGE", key) for key in names))
        return sum(size or 0 for size in sizes)

    async def _keys(self) -> list[tuple[int, int, bytes]]:
        """Partition, generation and name of every key; found by walking through all keys of the server."""
        prefix, middle = f"{self._namespace}:{{{TAGS[self.prefix]}", "}:g"
        found: dict[bytes, tuple[int, int]] = {}
        cursor = 0
        while True:
            pattern = f"{glob_escaped(prefix)}*{middle}*"
            cursor, keys = await self._valkey.call("SCAN", cursor, "MATCH", pattern, "COUNT", SCANNED)
            for key in keys:
                partition, _, rest = key.decode().removeprefix(prefix).partition(middle)
                number, colon, _ = rest.partition(":")
                if colon and partition.isdecimal() and number.isdecimal():
                    found[key] = int(partition), int(number)
            if int(cursor) == 0:
                return [(*where, key) for key, where in found.items() if where[0] < self.topic.partitions]

    async def _call(self, function: str, partition: int, *args: Any) -> Any:
        return await self._valkey.call("FCALL", f"{self.prefix}_{function}", 1, self.base(partition), *args)


async def apply(
    valkey: Valkey, prefix: Prefix, base: str, start: Position, end: int, items: bytes, generation: int | None
) -> None:
    """Fold packed `items` and store `end` as the next offset: all of it or, raising `Behind`, nothing.

    Repeating what was folded before is silently done. Into the live generation and those that follow it, or into
    another one alone: then raises `GenerationGone` where that is not there.
    """
    function, into = ("apply", ()) if generation is None else ("fold", (generation,))
    args = start.log_id, start.offset, end, items, *into
    reply = await valkey.call("FCALL", f"{prefix}_{function}", 1, base, *args)
    if reply[0] == -1:
        raise GenerationGone.of(generation, base)
    if reply[0] == 0:
        raise Behind(Position(reply[1].decode(), int(reply[2])) if reply[1] else None)


def _rows(flat: Sequence[Any]) -> Iterator[Generation]:
    for at in range(0, len(flat), WIDTH):
        number, state, scope, schema, read, since, held, log, offset = flat[at : at + WIDTH]
        position = Position(log.decode(), offset) if log else None
        kept = since or None, held == 1
        yield Generation(number, State(state.decode()), scope.decode(), schema, bool(read), position, *kept)
