"""Doubt by the fencer's own clock; a fence corrects a partition's wrong clock."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from itertools import count

import pytest

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended, Position
from libs.contracts.topics import catalogue_topic, votes_topic
from libs.projection import fencing
from libs.projection.fencing import CATALOGUE_WAIT_S, CLOCK_TOLERANCE_S, Fencer
from libs.tally.contest import Contest
from libs.tally.events import Fence, LogCreated
from libs.tally.reservations import Granted, Stale
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.reply_types import PartitionState
from tests.libs.views.lua_ledger import request_of
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_contest, a_vote
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually

HOUR_US = 3_600_000_000
PATIENCE_S = 6.0


@dataclass
class Steered:
    """One partition of real views, a log that folds what is appended, and clocks in the test's hands."""

    partition: Partition
    valkey_step_us: int = 0
    now: float = 1_000.0
    time_ns: Callable[[], int] = time.time_ns
    catalogue: dict[int, int] = field(default_factory=lambda: {0: 0, 1: 0})
    """The positions of its views; the log of each partition ends at `catalogue_end`."""
    catalogue_end: int = 0
    fences: list[bytes] = field(default_factory=list)
    assigned: list[int] = field(default_factory=lambda: [0])

    def __post_init__(self) -> None:
        views = self.partition.views
        original = views.state

        async def state(partition: int) -> PartitionState:
            found = await original(partition)
            return replace(found, now=found.now + self.valkey_step_us)

        views.state = state  # type: ignore[method-assign]
        self.fencer = Fencer(
            votes_topic("test", 1),
            views,
            self,
            self,  # type: ignore[arg-type]
            self,  # type: ignore[arg-type]
            assigned=lambda: self.assigned,
            send_deadline_s=PATIENCE_S - fencing.MARGIN_S,
        )

    def monotonic(self) -> float:
        return self.now

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended:
        self.fences.append(value)
        fence = vote_codec.decode(value)
        assert isinstance(fence, Fence)
        await self.partition.fold(*([] if self.partition.end else [LogCreated("log")]), fence)
        return Appended(0, self.partition.end - 1, exact=True)

    async def end_offsets(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        return dict.fromkeys(partitions, self.partition.end)

    async def ends(self) -> dict[int, int]:
        return dict.fromkeys(self.catalogue, self.catalogue_end)

    async def has(self, ends: Mapping[int, int]) -> bool:
        return all(self.catalogue[partition] >= end for partition, end in ends.items())

    async def look(self, seconds: float = 0.0) -> int:
        """A look after so many seconds by the fencer's clock; how many fences there are by then."""
        self.now += seconds
        await self.fencer._check(0)
        return len(self.fences)

    async def state(self) -> PartitionState:
        return await self.partition.views.state(0)


@pytest.fixture
async def steered(valkey: ValkeyClient, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Steered:
    steered = Steered(Partition(VoteViews(valkey, namespace, 2)))
    monkeypatch.setattr(fencing, "time", steered)
    assert await steered.look() == 1
    return steered


@pytest.mark.parametrize(
    ("step_us", "waits_s", "fences"),
    [
        pytest.param(-HOUR_US, PATIENCE_S + 0.1, 2, id="a lost one is fenced though Valkey's clock steps back"),
        pytest.param(HOUR_US, PATIENCE_S - 0.1, 1, id="a step forward puts nothing in doubt"),
    ],
)
async def test_a_reservation_is_in_doubt_by_the_fencers_clock(
    steered: Steered, step_us: int, waits_s: float, fences: int
) -> None:
    await steered.partition.grant(a_vote())
    await steered.look()
    steered.valkey_step_us = step_us
    await steered.look(waits_s)
    assert await steered.look() == fences
    state = await steered.state()
    assert (state.open, state.pending) == (True, 2 - fences)


async def test_votes_that_come_and_go_are_in_no_doubt_while_the_clock_stands_still(steered: Steered) -> None:
    """Each has a moment of its own, though Valkey's clock has not come to it."""
    await steered.partition.set_clock((await steered.state()).clock + 5_000_000)
    voter = await steered.partition.grant(a_vote(voter="0"))
    for number in range(1, 5):
        following = await steered.partition.grant(a_vote(voter=str(number)))
        assert await steered.look(PATIENCE_S - 1) == 1
        await steered.partition.record(a_vote(voter=str(number - 1)), voter)
        voter = following
    assert await steered.look() == 1


async def test_a_clock_is_not_moved_by_the_word_of_one_other_or_by_the_difference_of_machines(
    steered: Steered,
) -> None:
    """Whichever of Valkey's and the process's clock has stepped back."""
    now = (await steered.state()).now
    await steered.partition.set_clock(now + int((CLOCK_TOLERANCE_S - 1) * 1_000_000))
    assert await steered.look() == 1
    moment = now + HOUR_US
    await steered.partition.set_clock(moment)
    steered.time_ns = lambda: moment * 1000
    assert await steered.look() == 1
    steered.time_ns, steered.valkey_step_us = time.time_ns, HOUR_US
    assert await steered.look() == 1


async def test_other_fences_leave_the_clock_where_it_is(steered: Steered) -> None:
    moment = (await steered.state()).now + 5_000_000
    await steered.partition.set_clock(moment)
    await steered.partition.fence()
    assert (await steered.partition.grant(a_vote())).terms.accepted_at >= moment
    assert Position("log", steered.partition.end) == (await steered.state()).position


def contest_of(catalogue_partition: int, as_of: int) -> Contest:
    """A contest of an account in that partition of the catalogue, as read when the view stood at `as_of`."""
    topic = catalogue_topic("test")
    accounts = (f"account{number}" for number in count())
    account = next(name for name in accounts if topic.partition_of(name) == catalogue_partition)
    return replace(a_contest(), key=f"{account}-contest", account=account, as_of=as_of)


async def test_a_catalogue_partition_that_cannot_be_folded_shuts_out_its_own_contests_alone(
    steered: Steered,
) -> None:
    """They are admitted by what was read once it was folded."""
    views = steered.partition.views
    await steered.partition.shut()
    steered.catalogue, steered.catalogue_end = {0: 5, 1: 4}, 5
    await steered.look()
    assert await steered.look(CATALOGUE_WAIT_S + 0.1) == 2
    state = await steered.state()
    assert state.open
    other, behind, folded = contest_of(0, 5), contest_of(1, 4), contest_of(1, 5)
    for contest, admitted in ((other, True), (behind, False), (folded, True)):
        assert await views.put_in_force(0, contest, state.incarnation) == admitted
        [answer] = await views.reserve(0, [request_of(contest, a_vote(contest=contest.key))])
        assert isinstance(answer, Granted if admitted else Stale)


async def test_no_fence_comes_before_the_log_tells_what_it_lost(steered: Steered) -> None:
    views = steered.partition.views
    assert await views.generations.begin_again(0, (await steered.state()).position, 1)
    steered.partition.end = 0
    assert await steered.look() == 1
    await views.generations.set_told(0, 1)
    assert await steered.look() == 2
    assert (await steered.state()).open


async def test_a_partition_whose_server_hangs_delays_no_fence_of_another(steered: Steered) -> None:
    views, answering = steered.partition.views, steered.partition.views.state

    async def state(partition: int) -> PartitionState:
        if partition == 1:
            await asyncio.Event().wait()
        return await answering(partition)

    views.state = state  # type: ignore[method-assign]
    steered.assigned = [0, 1]
    fencing_both = asyncio.create_task(steered.fencer.run())
    try:
        for earlier in (1, 2):
            await steered.partition.shut()  # as a restart of the server would
            await eventually(lambda: len(steered.fences) > earlier)  # noqa: B023
            await eventually(lambda: is_open(steered))
    finally:
        fencing_both.cancel()


async def is_open(steered: Steered) -> bool:
    return (await steered.state()).open
