"""Generations (copies) of a topic's views: opened, folded, swapped and dropped (`generations/generations.lua`)."""

import asyncio
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple, Self

from libs.contracts.log_records import Behind, Position
from libs.contracts.topics import Log, VotesLog, catalogue_topic, legacy_test_namespace, purchases_topic, votes_log
from libs.tally.errors import TallyError
from libs.views.generations.key_scan import GenerationKey, generation_keys
from libs.views.valkey.client import Valkey
from libs.views.valkey.function_libraries import call_function, pack, read_function, unpack
from libs.views.valkey.hash_tags import Prefix, base_in

FOLDED_PARTLY: Final = 2
"""Reply of a fold that ended before its last record."""
WIDTH: Final = 8


class State(StrEnum):
    LIVE = "live"
    BUILDING = "building"
    """Being folded by a replay."""
    FOLLOWING = "following"
    """Folded together with the live one, in the same call."""
    KEPT = "kept"
    """Folded like a following one: the previous live one after a swap, to be swapped back. At most one exists."""
    BROKEN = "broken"
    """Cannot be folded any further."""
    OTHER_LAYOUT = "other_layout"
    """Folded only by another version of the code, during an upgrade or a way back."""
    LOST = "lost"
    """Read until the log lost records that it has folded; it names them, and is never read or folded again."""


class GenerationGone(TallyError):
    """The generation does not exist or is broken: it was dropped, or Valkey lost it."""

    code = "views_unavailable"

    @classmethod
    def of(cls, number: int | None, base: str) -> Self:
        return cls(f"Generation {number} of {base} no longer exists, or is broken. Start the replay again.")


class FencesDiffer(TallyError):
    """The generation was folded by other fences than the live one: accepted votes would no longer count."""

    code = "fences_differ"

    @classmethod
    def of(cls, number: int, partition: str) -> Self:
        return cls(
            f"Generation {number} of {partition} was folded by other fences (records that end doubt about earlier "
            "votes) than the live view, since one of them was in quarantine: accepted votes could no longer "
            "count. --accept-differences swaps anyway; voting in that partition resumes after a new fence."
        )


FENCES_DIFFER: Final = "fences differ"


class Swap(NamedTuple):
    """Result of a swap; `reason` if it was not `done`.

    `reason` is the generation's state, "gone", FENCES_DIFFER, or "moving": retry.
    """

    done: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of one partition. `schema` is the version of the stored layout.

    `position` is None while nothing is folded. `kept_since` is the time of its swap, or of the loss (seconds since
    1970; None: not kept). Only of a lost one, `first_lost` is the offset of the first record that the log lost,
    and `is_told` whether the log tells of that.
    """

    number: int
    state: State
    schema: int
    position: Position | None
    kept_since: int | None = None
    first_lost: int | None = None
    is_told: bool = False

    @property
    def records_lost(self) -> int:
        """Return how many records it has folded that the log lost."""
        if self.first_lost is None or self.position is None:
            return 0
        return self.position.offset - self.first_lost


@dataclass(frozen=True, slots=True)
class PartitionGenerations:
    """All generations of one partition.

    `swaps` is the number of swaps so far, `last` the highest number ever assigned, `schema` the layout version of
    the running code.
    """

    swaps: int
    last: int
    schema: int
    live: Generation
    others: dict[int, Generation]

    def get(self, number: int) -> Generation | None:
        return self.live if number == self.live.number else self.others.get(number)

    @property
    def lost(self) -> list[Generation]:
        """Return the lost generations, the earliest loss first."""
        return [one for _, one in sorted(self.others.items()) if one.state is State.LOST]

    def offset_of(self, number: int) -> int:
        """Return the offset up to which a generation is folded; 0 also if it does not exist."""
        one = self.get(number)
        return 0 if one is None or one.position is None else one.position.offset


class Witness(NamedTuple):
    """The last record that a view has folded: its offset, and the time of its append (ms) or a later one.

    Appended again after a loss, a record of that offset is younger.
    """

    offset: int
    no_later_than_ms: int


class Differing(NamedTuple):
    """A field of a key whose values differ between two generations; `live` or `other` is "" if it is missing."""

    partition: int
    key: str
    field: str
    live: bytes
    other: bytes


class Moving(Exception):
    """The two generations are at different positions at the moment; retry."""


class Generations:
    """The generations of one topic's views. All methods raise `ViewsUnavailable`."""

    def __init__(self, valkey: Valkey, namespace: str, prefix: Prefix, topic: Log) -> None:
        self.topic = topic
        self.prefix = prefix
        self.valkey = valkey
        self.namespace = namespace

    def base(self, partition: int) -> str:
        return base_in(self.topic, self.namespace, self.prefix, partition)

    async def read(self, partition: int) -> PartitionGenerations:
        reply = await read_function(self.valkey, f"{self.prefix}_generations", self.base(partition))
        _, swaps, last, schema, *flat = unpack(reply)
        live, *others = _rows(flat, schema)
        return PartitionGenerations(swaps, last, schema, live, {one.number: one for one in others})

    async def read_all(self) -> dict[int, PartitionGenerations]:
        """Read the generations of every partition, in order."""
        partitions = self.topic.numbers
        found = await asyncio.gather(*map(self.read, partitions))
        return dict(zip(partitions, found, strict=True))

    async def open(self, partition: int, number: int) -> bool:
        """Open a generation, repeatable; False if the number was assigned before."""
        return bool(await self._call("open", partition, number))

    async def swap(self, partition: int, number: int, *, accept: bool = False, at: int | None = None) -> Swap:
        """Switch readers to the generation; only if its next offset is `at`, if given.

        `accept`: also if votes were folded by other fences; then the gate is closed until the next fence.
        """
        done, *reason = await self._call("swap", partition, number, int(accept), "" if at is None else at)
        return Swap(bool(done), reason[0].decode() if reason else "")

    async def touch(self, partition: int, number: int, position: Position) -> State:
        """Fold an empty batch into the generation at `position`, and return its resulting state.

        Raises `Behind` if it is no longer there, and `GenerationGone`.
        """
        args = position.log_id, position.offset, position.offset, pack([]), number
        return State((await _fold(self.valkey, f"{self.prefix}_fold", self.base(partition), *args))[-1].decode())

    async def differences(self, partition: int, number: int, names: Collection[str]) -> AsyncIterator[Differing]:
        """Yield the differences to the live generation in the keys of these names.

        Each page of a key is compared with both at the same position. Raises `Moving` if they are not.
        """
        for name in names:
            for side in ("live", "other"):
                cursor: bytes | None = b"0"
                while cursor is not None:
                    args = self.base(partition), number, name, cursor, side
                    reply = unpack(await read_function(self.valkey, f"{self.prefix}_compare", *args))
                    if len(reply) == 1:
                        raise Moving
                    cursor = None if reply[0] == b"0" else reply[0]
                    for field, live, other in zip(*(reply[1][at::3] for at in range(3)), strict=True):
                        yield Differing(partition, name, field.decode(errors="replace"), live, other)

    async def names(self, numbers: Collection[int]) -> dict[int, set[str]]:
        """Return the names of the keys within these generations, by partition."""
        found: dict[int, set[str]] = {}
        async for key in self._keys():
            if key.generation in numbers:
                found.setdefault(key.partition, set()).add(key.name)
        return found

    async def drop(self, partition: int, number: int) -> None:
        """Stop folding a generation; `sweep` deletes its keys. The live one is never dropped."""
        await self._call("drop", partition, number)

    async def witness(self, partition: int) -> Witness | None:
        """Return a record by which the log of the live view is recognised; None before the first fold."""
        reply = await read_function(self.valkey, f"{self.prefix}_witness", self.base(partition))
        return Witness(*map(int, reply)) if reply else None

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        """Put an empty generation in the place of the live one, which has records that the log lost.

        The live one becomes `State.LOST`, and what followed it is dropped. The views of votes shut their gate.
        Does nothing, and returns False, if the live one is not at `stored`.
        """
        return bool(await self._call("begin_again", partition, stored.log_id, stored.offset, first_lost))

    async def set_told(self, partition: int, number: int) -> None:
        """Note that the log tells of what a lost generation lost."""
        await self._call("told", partition, number)

    async def renew(self, partition: int, number: int) -> bool:
        """Restart the time for which a generation is kept; False if none of that number is kept."""
        return bool(await self._call("renew", partition, number))

    async def expire(self, partition: int, after_s: int) -> list[int]:
        """Drop the generations kept for longer than `after_s`; return their numbers."""
        return list(await self._call("expire", partition, after_s))

    async def sweep(self) -> int:
        """Delete the keys of dropped generations; return their number.

        Each deletion asks again whether the generation is gone: views that were lost meanwhile begin anew at 1.
        """
        known = await self.read_all()
        swept = 0
        async for key in self._keys():
            partition = known[key.partition]
            if key.generation <= partition.last and partition.get(key.generation) is None:
                swept += await self._call("unlink", key.partition, key.generation, key.name)
        return swept

    async def memory(self, number: int) -> int:
        """Return the approximate memory of a generation in bytes; Valkey samples the fields of long hashes."""
        names = [each.key async for each in self._keys() if each.generation == number]
        sizes = await asyncio.gather(*(self.valkey.call("MEMORY", "USAGE", key) for key in names))
        return sum(size or 0 for size in sizes)

    def _keys(self) -> AsyncIterator[GenerationKey]:
        return generation_keys(self.valkey, self.namespace, self.prefix, self.topic)

    async def _call(self, function: str, partition: int, *args: Any) -> Any:
        return await call_function(self.valkey, f"{self.prefix}_{function}", self.base(partition), *args)


async def apply(
    valkey: Valkey, prefix: Prefix, base: str, start: Position, end: int, items: bytes, generation: int | None
) -> int:
    """Fold packed `items` and store `end` as the next offset, atomically. A repeated batch changes nothing.

    Folds into the live generation and those that follow it, or only into `generation`. Returns the stored offset:
    less than `end` if all would have blocked Valkey for too long. Raises `Behind` if the view is at another
    position than `start`, and `GenerationGone` if the generation does not exist.
    """
    function, into = ("apply", ()) if generation is None else ("fold", (generation,))
    args = start.log_id, start.offset, end, items, *into
    reply = await _fold(valkey, f"{prefix}_{function}", base, *args)
    return int(reply[1]) if reply[0] == FOLDED_PARTLY else end


async def _fold(valkey: Valkey, function: str, base: str, *args: Any) -> list[Any]:
    """Call a function that folds; the last of `args` may be a generation's number."""
    reply: list[Any] = await call_function(valkey, function, base, *args)
    if reply[0] == -1:
        raise GenerationGone.of(args[-1], base)
    if reply[0] == 0:
        raise Behind(Position(reply[1].decode(), int(reply[2])) if reply[1] else None)
    return reply


def _rows(flat: Sequence[Any], code_schema: int) -> Iterator[Generation]:
    for at in range(0, len(flat), WIDTH):
        number, stored, schema, since, log, offset, first, told = flat[at : at + WIDTH]
        position, state = Position(log.decode(), offset) if log else None, State(stored.decode())
        if state is State.BROKEN and schema != code_schema:
            state = State.OTHER_LAYOUT
        yield Generation(number, state, schema, position, since or None, first or None, told == 1)


class ProjectionName(StrEnum):
    """A topic and its views: a projection that can be rebuilt."""

    VOTES = "votes"
    PURCHASES = "purchases"
    CATALOGUE = "catalogue"
    TEST = "test"
    """The catalogue of the legacy test environment."""


def projections_of(
    valkey: Valkey, namespace: str, partitions: int | VotesLog
) -> dict[ProjectionName, Generations]:
    """Return each projection's views, with their log; `partitions`: of the votes, or their log."""
    votes = votes_log(namespace, partitions)
    test = legacy_test_namespace(namespace)
    return {
        ProjectionName.VOTES: Generations(valkey, namespace, "votes", votes),
        ProjectionName.PURCHASES: Generations(
            valkey, namespace, "purchases", purchases_topic(namespace, votes.begun_with)
        ),
        ProjectionName.CATALOGUE: Generations(valkey, namespace, "catalogue", catalogue_topic(namespace)),
        ProjectionName.TEST: Generations(valkey, test, "catalogue", catalogue_topic(test)),
    }
