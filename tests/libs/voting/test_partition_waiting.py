"""Votes that wait for a partition's gate or fold: events that wake them, and the cost of waiting."""

import asyncio
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial

import pytest

from libs.contracts.vote_states import FoldProgress, VoteName, VoteState
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import LogCreated
from libs.voting.partition_waiting import LOOKUPS, POLL_S, PartitionWaiting, Undecided
from tests.libs.views.partition import Partition
from tests.libs.voting.conftest import Counted
from tests.support.builders.contests import a_cast, a_void, pseudonym
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually

LONG_S = 30.0


@pytest.fixture
def watch(partition: Partition) -> PartitionWaiting:
    return PartitionWaiting(partition.views)


def soon(seconds: float = LONG_S) -> float:
    return asyncio.get_running_loop().time() + seconds


def is_folded(state: VoteState) -> bool:
    return state.status is not None


def undecided(voter: str, incarnation: int | None = None, offset: int | None = None) -> Undecided:
    return Undecided(VoteName("contest", pseudonym(voter), "vote"), is_folded, incarnation, offset)


async def answer(waiting: Awaitable[VoteState | None]) -> VoteState:
    state = await waiting
    assert state is not None
    return state


async def progress_of(partition: Partition) -> FoldProgress:
    progress, _ = await partition.views.lookups(0, [])
    return progress


@pytest.mark.parametrize("waiting", [5, 500])
async def test_while_nothing_moves_waiting_costs_one_call_a_poll_however_many_wait(
    partition: Partition, watch: PartitionWaiting, valkey: Counted, waiting: int
) -> None:
    seen, began = await progress_of(partition), asyncio.get_running_loop().time()
    valkey.calls.clear()
    votes = [watch.wait_for_vote(0, undecided(f"v{n}"), soon(1)) for n in range(waiting)]
    gates = [watch.wait_for_gate(0, seen, soon(1)) for _ in range(waiting)]
    assert set(await asyncio.gather(*votes, *gates)) == {None}
    elapsed = asyncio.get_running_loop().time() - began
    assert valkey.calls["votes"] == waiting  # once each, at the first poll
    batches = -(-waiting // LOOKUPS)
    assert valkey.calls["votes_lookup"] - batches <= elapsed / POLL_S + 1
    assert valkey.calls.keys() == {"votes_lookup", "votes"}


async def test_what_the_fold_decides_is_answered_and_the_rest_waits_on(
    partition: Partition, watch: PartitionWaiting, valkey: Counted
) -> None:
    incarnation = await partition.incarnation()
    waiting = {n: watch.wait_for_vote(0, undecided(f"v{n}", incarnation), soon()) for n in range(200)}
    await eventually(lambda: valkey.calls["votes"] == 200)
    await partition.fold(*(a_cast(voter=f"v{n}", incarnation=incarnation) for n in range(0, 200, 2)))
    for number in range(0, 200, 2):
        assert (await answer(waiting[number])).offset == 2 + number // 2
    assert not any(waiting[number].done() for number in range(1, 200, 2))
    await partition.fence()
    for number in range(1, 200, 2):
        state = await answer(waiting[number])
        assert state.status is None
        assert state.progress.ended(incarnation)


def looked_up(valkey: Counted, before: int) -> bool:
    return valkey.calls["votes"] > before


async def test_a_vote_is_not_looked_up_before_the_fold_has_come_to_its_record(
    partition: Partition, watch: PartitionWaiting, valkey: Counted
) -> None:
    incarnation = await partition.incarnation()
    waiting = watch.wait_for_vote(0, undecided("late", incarnation, partition.end + 3), soon())
    other = watch.wait_for_vote(0, undecided("other", incarnation), soon())
    for number in range(3):
        await partition.fold(a_cast(voter=f"v{number}", incarnation=incarnation))
        before = valkey.calls["votes"]
        await eventually(partial(looked_up, valkey, before))  # `other` was looked up for that
    assert valkey.calls["votes"] <= 4
    await partition.fold(a_cast(voter="late", incarnation=incarnation))
    await answer(waiting)
    other.cancel()


async def test_a_gate_that_opens_wakes_all_that_wait_at_it(partition: Partition, watch: PartitionWaiting) -> None:
    fence = await partition.shut()
    waiting = [watch.wait_for_gate(0, None, soon()) for _ in range(100)]
    await partition.fold(a_void())  # progress, but behind a shut gate
    assert await watch.wait_for_gate(0, None, soon(0.1)) is None
    await partition.fold(fence)
    opened = await asyncio.gather(*waiting)
    assert set(opened) == {await progress_of(partition)}


async def test_at_an_open_gate_the_next_progress_is_waited_for(
    partition: Partition, watch: PartitionWaiting
) -> None:
    """Requests that an open gate does not admit wait for the fold: of a reopening, or of a removal."""
    seen = await watch.wait_for_gate(0, None, soon())
    assert seen is not None
    waiting = watch.wait_for_gate(0, seen, soon())
    assert await watch.wait_for_gate(0, seen, soon(0.1)) is None
    await partition.fold(a_cast())
    assert await waiting == await progress_of(partition) != seen


async def test_a_vote_that_was_seen_undecided_is_looked_up_again_only_with_progress(
    partition: Partition, watch: PartitionWaiting
) -> None:
    seen = await progress_of(partition)
    anything = replace(undecided("v"), is_decided=lambda state: True)
    assert await watch.wait_for_vote(0, anything, soon(0.1), seen) is None
    waiting = watch.wait_for_vote(0, anything, soon(), seen)
    await partition.fold(a_cast(voter="somebody else"))
    await answer(waiting)


class Away(VoteViews):
    """A Valkey that refuses, then one that is silent."""

    def __init__(self) -> None:
        self.asked = 0

    async def lookups(self, *_: object) -> tuple[FoldProgress, list[VoteState]]:
        self.asked += 1
        if self.asked < 3:
            raise ViewsUnavailable("away")
        if self.asked == 3:
            raise RuntimeError("unforeseen")
        await asyncio.Event().wait()
        raise AssertionError


async def test_a_valkey_that_does_not_answer_holds_nobody_beyond_the_deadline() -> None:
    watch = PartitionWaiting(Away())
    vote, gate = watch.wait_for_vote(0, undecided("v"), soon(0.3)), watch.wait_for_gate(0, None, soon(0.3))
    assert await asyncio.wait_for(asyncio.gather(vote, gate), 60) == [None, None]


async def test_a_view_that_went_back_is_progress(partition: Partition, watch: PartitionWaiting) -> None:
    seen = await progress_of(partition)
    waiting = watch.wait_for_vote(0, undecided("v"), soon(), seen)
    valkey, base = partition.views._valkey, partition.views._base(0)
    for key in await valkey.call("KEYS", f"{base}:*"):
        await valkey.call("DEL", key)
    partition.end = 0
    await partition.fold(LogCreated("log"), a_cast(voter="v"), await partition.shut())
    assert (await answer(waiting)).offset == 1
