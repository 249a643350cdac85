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
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.hash_tags import key_base
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_vote
from tests.support.clients.vote_views import FoldInput, VoteViews


class Replayed:
    """A partition, a generation of it that a replay folds, and the log so far."""

    def __init__(self, valkey: ValkeyClient, namespace: str) -> None:
        self.valkey = valkey
        self.views = VoteViews(valkey, namespace, 1)
        self.partition = Partition(self.views)
        self.base = key_base(namespace, "votes", 0, 1)
        self.generations = Generations(valkey, namespace, "votes", votes_topic(namespace, 1))
        self.other = VoteViews(valkey, namespace, 1, generation=2)
        self.log: list[Event] = []

    async def fold(self, *events: Event, quarantined: bool = False) -> None:
        """Into the live generation, where what is quarantined is not read."""
        unread = Undecodable("of a version to come")
        self.log += events
        await self.partition.fold(*(unread if quarantined else event for event in events))

    async def fence(self, *, quarantined: bool = False) -> int:
        asked = await self.partition.shut()
        await self.fold(asked, quarantined=quarantined)
        return asked.incarnation

    async def cast(self, vote_id: str) -> None:
        command = a_vote(vote_id=vote_id, voter=vote_id)
        await self.fold(cast_of(command, await self.partition.grant(command), "receipt"))

    async def restart(self) -> None:
        """The server that asked is another one now."""
        await self.valkey.call("HSET", f"{self.base}:gate", "asked_run", "gone")

    async def replay(self) -> None:
        """All of the log, by code that reads all of it."""
        assert await self.generations.open(0, 2)
        items = [FoldInput(event, at, 1_000 + at) for at, event in enumerate(self.log)]
        await self.other.apply(0, Position("log", 0), items, self.partition.end)
        await self.generations.touch(0, 2, Position("log", self.partition.end))


@pytest.fixture
async def replayed(valkey: ValkeyClient, namespace: str) -> Replayed:
    replayed = Replayed(valkey, namespace)
    await replayed.fence()
    return replayed


async def test_a_generation_in_which_accepted_votes_are_fenced_is_not_swapped_in_unasked(
    replayed: Replayed,
) -> None:
    """Three votes count that were accepted after a fence which follows the one before the quarantined one.

    Once it is swapped in, nobody is admitted by what it does not count.
    """
    await replayed.fence(quarantined=True)
    await replayed.restart()
    await replayed.fence()
    for vote_id in "123":
        await replayed.cast(vote_id)
        assert await replayed.partition.status(vote_id, vote_id) is VoteStatus.COUNTED
    await replayed.replay()
    assert await replayed.generations.swap(0, 2) == Swap(False, FENCES_DIFFER)
    assert await replayed.partition.status("1", "1") is VoteStatus.COUNTED
    await replayed.cast("4")
    assert await replayed.partition.status("4", "4") is VoteStatus.COUNTED
    pending = a_vote(vote_id="pending", voter="5")
    granted = await replayed.partition.grant(pending)
    assert await replayed.generations.swap(0, 2, accept=True) == Swap(True)
    assert not await replayed.views.confirm(0, granted.incarnation)
    assert isinstance(await replayed.partition.reserve(a_vote(vote_id="6", voter="6")), GateClosed)
    assert await replayed.fence() > granted.incarnation
    await replayed.fold(cast_of(pending, granted, "receipt"))
    assert await replayed.partition.status("pending", "5") is None
    await replayed.cast("6")
    assert await replayed.partition.status("6", "6") is VoteStatus.COUNTED


async def test_a_swap_is_refused_though_the_latest_fence_is_the_same(replayed: Replayed) -> None:
    """Votes between the quarantined fence and its copy count in one of them only."""
    command = a_vote()
    granted = await replayed.partition.grant(command)
    await replayed.fence(quarantined=True)
    await replayed.fold(cast_of(command, granted, "receipt"))
    await replayed.fence()
    assert await replayed.partition.status() is VoteStatus.COUNTED
    await replayed.replay()
    assert (await replayed.other.state(0)).fence == (await replayed.views.state(0)).fence
    assert await replayed.generations.swap(0, 2) == Swap(False, FENCES_DIFFER)


async def test_the_gate_stays_open_over_a_swap_of_generations_with_the_same_fences(replayed: Replayed) -> None:
    await replayed.fence()
    await replayed.cast("1")
    await replayed.replay()
    granted = await replayed.partition.grant(a_vote(vote_id="2", voter="2"))
    assert await replayed.generations.swap(0, 2) == Swap(True)
    assert await replayed.views.confirm(0, granted.incarnation)
    assert (await replayed.views.state(0)).open


async def test_the_gate_shuts_over_a_swap_from_a_stuck_generation_that_lacks_a_fence(replayed: Replayed) -> None:
    await replayed.cast("1")
    granted = await replayed.partition.grant(a_vote(vote_id="2", voter="2"))
    replayed.log.append(await replayed.partition.shut())
    await replayed.valkey.call("HSET", f"{replayed.base}:gate", "state", "open")
    await replayed.valkey.call("HSET", f"{replayed.base}:generations", "schema", 1)
    replayed.partition.end += 1
    await replayed.replay()
    assert await replayed.generations.swap(0, 2) == Swap(True)
    assert not (await replayed.views.state(0)).open
    assert not await replayed.views.confirm(0, granted.incarnation)
