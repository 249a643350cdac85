"""A generation that was folded by other fences than the live one is not swapped in unasked, and once it is, no
vote is admitted by what it does not count."""

import pytest

from libs.contracts.codec import Undecodable
from libs.contracts.log_records import Position
from libs.contracts.topics import votes_topic
from libs.tally.events import Event
from libs.tally.reservations import GateClosed, cast_of
from libs.tally.voter_ledger import VoteStatus
from libs.views.generations.generations import FENCES_DIFFER, Generations, Swap
from tests.libs.views.partition import Partition
from tests.support.builders import a_vote
from tests.support.vote_views import FoldInput, VoteViews


class Replayed:
    """A partition, a generation of it that a replay folds, and the log so far."""

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        views = partition.views
        topic = votes_topic(views._namespace, 1)
        self.generations = Generations(views._valkey, views._namespace, "votes", topic)
        self.other = VoteViews(views._valkey, views._namespace, 1, generation=2)
        self.log: list[Event] = []

    async def fold(self, *events: Event, quarantined: bool = False) -> None:
        """Into the live generation, where what is quarantined is not read."""
        partition = self.partition
        items = [
            FoldInput(Undecodable("of a version to come") if quarantined else event, at, 1_000 + at)
            for at, event in enumerate(events, partition.end)
        ]
        self.log += events
        await partition.views.apply(0, Position("log", partition.end), items, partition.end + len(events))
        partition.end += len(events)

    async def fence(self, *, quarantined: bool = False) -> int:
        views = self.partition.views
        asked = await views.shut(0, (await views.state(0)).incarnation)
        assert asked is not None
        await self.fold(asked, quarantined=quarantined)
        return asked.incarnation

    async def cast(self, vote_id: str) -> None:
        command = a_vote(vote_id=vote_id, voter=vote_id)
        await self.fold(cast_of(command, await self.partition.grant(command), "receipt"))

    async def restart(self) -> None:
        """The server that asked is another one now."""
        await self.partition.views._valkey.call(
            "HSET", f"{self.partition.views._base(0)}:gate", "asked_run", "gone"
        )

    async def replay(self) -> None:
        """All of the log, by code that reads all of it."""
        assert await self.generations.open(0, 2)
        first = self.partition.end - len(self.log)
        items = [FoldInput(event, at, 1_000 + at) for at, event in enumerate(self.log, first)]
        await self.other.apply(0, Position("log", 0), items, self.partition.end)
        await self.generations.touch(0, 2, Position("log", self.partition.end))


@pytest.fixture
async def replayed(partition: Partition) -> Replayed:
    """From an empty partition on."""
    keys = await partition.views._valkey.call("KEYS", f"{partition.views._base(0).replace('{', '[{]')}:*")
    await partition.views._valkey.call("DEL", *keys)
    partition.end = 0
    replayed = Replayed(partition)
    await replayed.fence()
    return replayed


async def a_quarantined_fence(replayed: Replayed) -> None:
    """Three votes count that were accepted after a fence which follows the one before the quarantined one."""
    await replayed.fence(quarantined=True)
    await replayed.restart()
    await replayed.fence()
    for vote_id in ("1", "2", "3"):
        await replayed.cast(vote_id)
        assert await replayed.partition.status(vote_id, vote_id) is VoteStatus.COUNTED


async def test_a_generation_in_which_accepted_votes_are_fenced_is_not_swapped_in(replayed: Replayed) -> None:
    await a_quarantined_fence(replayed)
    await replayed.replay()
    assert await replayed.generations.swap(0, 2) == Swap(False, FENCES_DIFFER)
    assert await replayed.partition.status("1", "1") is VoteStatus.COUNTED
    await replayed.cast("4")
    assert await replayed.partition.status("4", "4") is VoteStatus.COUNTED


async def test_nobody_is_admitted_by_what_a_generation_swapped_in_does_not_count(replayed: Replayed) -> None:
    await a_quarantined_fence(replayed)
    await replayed.replay()
    pending = a_vote(vote_id="pending", voter="4")
    granted = await replayed.partition.grant(pending)
    assert await replayed.generations.swap(0, 2, accept=True) == Swap(True)
    assert not await replayed.partition.views.confirm(0, granted.incarnation)
    assert isinstance(await replayed.partition.reserve(a_vote(vote_id="5", voter="5")), GateClosed)
    assert await replayed.fence() > granted.incarnation
    await replayed.fold(cast_of(pending, granted, "receipt"))
    assert await replayed.partition.status("pending", "4") is None
    await replayed.cast("5")
    assert await replayed.partition.status("5", "5") is VoteStatus.COUNTED


async def test_a_swap_is_refused_though_the_latest_fence_is_the_same(replayed: Replayed) -> None:
    """Votes between the quarantined fence and its copy count in one of them only."""
    command = a_vote()
    granted = await replayed.partition.grant(command)
    await replayed.fence(quarantined=True)
    await replayed.fold(cast_of(command, granted, "receipt"))
    await replayed.fence()
    assert await replayed.partition.status() is VoteStatus.COUNTED
    await replayed.replay()
    assert (await replayed.other.state(0)).fence == (await replayed.partition.views.state(0)).fence
    assert await replayed.generations.swap(0, 2) == Swap(False, FENCES_DIFFER)


async def test_the_gate_stays_open_over_a_swap_of_generations_with_the_same_fences(replayed: Replayed) -> None:
    await replayed.fence()
    await replayed.cast("1")
    await replayed.replay()
    granted = await replayed.partition.grant(a_vote(vote_id="2", voter="2"))
    assert await replayed.generations.swap(0, 2) == Swap(True)
    assert await replayed.partition.views.confirm(0, granted.incarnation)
    assert (await replayed.partition.views.state(0)).open


async def test_the_gate_shuts_over_a_swap_from_a_stuck_generation_that_lacks_a_fence(replayed: Replayed) -> None:
    await replayed.cast("1")
    views = replayed.partition.views
    granted = await replayed.partition.grant(a_vote(vote_id="2", voter="2"))
    asked = await views.shut(0, granted.incarnation)
    assert asked is not None
    await views._valkey.call("HSET", f"{views._base(0)}:gate", "state", "open")
    await views._valkey.call("HSET", f"{views._base(0)}:generations", "schema", 1)
    replayed.log.append(asked)
    replayed.partition.end += 1
    await replayed.replay()
    assert await replayed.generations.swap(0, 2) == Swap(True)
    assert not (await views.state(0)).open
    assert not await views.confirm(0, granted.incarnation)
