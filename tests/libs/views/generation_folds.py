"""Generations of a votes log of one partition, folded step by step."""

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.events import Event, LogCreated, VoteCast
from libs.views.generations.generations import Generations, State, Swap
from libs.views.valkey.client import ValkeyClient
from tests.libs.views import test_catalogue_fold
from tests.simulation.comparison import Table, described_view
from tests.support.builders.contests import a_cast
from tests.support.clients.vote_views import VoteViews

LOG = test_catalogue_fold.LOG
CONTESTS = {"one", "two:é", "contest"}
NOT_OF_LOG = ("due", "outcomes", "outcome_times", "outcome_ring", "calls")


class Keys(NamedTuple):
    """All keys of one partition."""

    valkey: ValkeyClient
    base: str

    async def names(self) -> list[bytes]:
        found: list[bytes] = await self.valkey.call("KEYS", f"{self.base.replace('{', '[{]')}:*")
        return found

    async def copy(self) -> dict[bytes, bytes]:
        return {name: await self.valkey.call("DUMP", name) for name in await self.names()}

    async def restore(self, copy: dict[bytes, bytes]) -> None:
        """A Valkey that lost its last writes."""
        await self.forget()
        for name, dumped in copy.items():
            await self.valkey.call("RESTORE", name, 0, dumped)

    async def forget(self) -> None:
        if names := await self.names():
            await self.valkey.call("DEL", *names)

    async def held(self, number: int) -> dict[str, Any]:
        """Return a generation's contents by the name of the key, without what the log does not determine."""
        prefix, found = f"{self.base}:g{number}:", dict[str, Any]()
        for key in await self.names():
            name = key.decode().removeprefix(prefix)
            if key.decode().startswith(prefix) and name.partition(":")[0] not in NOT_OF_LOG:
                kind = (await self.valkey.call("TYPE", key)).decode()
                read = {"hash": ("HGETALL",), "set": ("SMEMBERS",), "zset": ("ZRANGE", 0, -1, "WITHSCORES")}[kind]
                flat = await self.valkey.call(read[0], key, *read[1:])
                found[name] = sorted(flat) if kind == "set" else flat
        return found


class Votes:
    """A votes log of one partition, the views that it is folded into, and who folds it again."""

    def __init__(self, valkey: ValkeyClient, log: Sequence[LogRecord], number: int = 2) -> None:
        self.log = log
        self.number = number
        self.namespace = f"t{uuid.uuid4().hex}"
        topic = votes_topic(self.namespace, 1)
        self.generations = Generations(valkey, self.namespace, "votes", topic)
        self.views = VoteViews(valkey, self.namespace, 1)
        self.keys = Keys(valkey, self.generations.base(0))
        self.live = VotesProjection(topic, self.views, None)
        self.other = VotesProjection(topic, VoteViews(valkey, self.namespace, 1, generation=number), None)

    async def step(self, projection: VotesProjection, size: int, at: Position | None = None) -> None:
        """Fold the next records, from where the view stands, or stood `at` some earlier time."""
        start = at or await projection.position(0) or Position("log", 0)
        batch = [record for record in self.log if record.offset >= start.offset][:size]
        if batch:
            await projection.fold(0, start, batch)

    async def to_the_end(self, projection: VotesProjection) -> None:
        await self.step(projection, len(self.log))

    async def follow(self) -> State:
        """As a replay does: to the end of the log, and see."""
        await self.to_the_end(self.other)
        position = await self.other.position(0)
        assert position is not None
        return await self.generations.touch(0, self.number, position)

    async def rebuild(self) -> None:
        """Every step of a replay, whichever of them were taken before."""
        opened = await self.generations.open(0, self.number)
        if not opened:
            assert (await self.generations.read(0)).live.number == self.number
            return
        await self.to_the_end(self.live)
        assert await self.follow() is State.FOLLOWING
        assert await self.generations.swap(0, self.number) == Swap(True)

    async def seen(self, number: int) -> Table:
        views = VoteViews(self.keys.valkey, self.namespace, 1, generation=number)
        return await described_view(views, 0, CONTESTS)


def a_votes_log(*events: Event, first: int = 0) -> list[LogRecord]:
    known = [] if first else [LogCreated("log")]
    return [
        LogRecord(offset, 1_000 + offset, vote_codec.encode(event))
        for offset, event in enumerate([*known, *events], first)
    ]


def casts(count: int, first: int = 0, **members: Any) -> list[VoteCast]:
    return [a_cast("abc"[n % 3], voter=f"voter {n}", **members) for n in range(first, first + count)]
