"""A view that has records which the log lost begins again, and what it had stays readable."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.log_records import LogRecord, Position
from libs.tally.events import Fence
from libs.views.generations.generations import GenerationGone, State, Swap
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.libs.views.random_logs import folded, logs
from tests.simulation.comparison import described, differing
from tests.support.hypothesis_examples import PROPERTY, examples

MOST_LOST = 3


async def lose(votes: Votes, first: int) -> None:
    """Let the log lose its records from `first` on, and the view begin again."""
    stored = await votes.live.position(0)
    assert stored is not None
    votes.log = [record for record in votes.log if record.offset < first]
    assert await votes.live.begin_again(0, stored, first)


@settings(PROPERTY, max_examples=examples(30))
@given(log=logs, cut=st.floats(0, 1), more=st.integers(0, 40))
async def test_a_view_that_begins_again_becomes_the_fold_of_the_shorter_log(
    valkey: ValkeyClient, log: list[LogRecord], cut: float, more: int
) -> None:
    votes = Votes(valkey, log)
    await votes.to_the_end(votes.live)
    before, first = await votes.seen(1), 1 + int(cut * (len(log) - 1))
    await lose(votes, first)
    votes.log = [*votes.log, *a_votes_log(*casts(more), first=first)]
    await votes.to_the_end(votes.live)
    assert not differing(await votes.seen(2), described(folded(list(votes.log))))
    assert not differing(await votes.seen(1), before)
    found = (await votes.generations.read(0)).others[1]
    assert (found.state, found.first_lost, found.records_lost) == (State.LOST, first, log[-1].offset + 1 - first)
    await votes.keys.forget()


async def test_only_the_view_at_the_known_position_begins_again(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.step(votes.live, 10)
    for stored in (Position("log", 9), Position("another log", 10)):
        assert not await votes.live.begin_again(0, stored, 5)
    assert (await votes.generations.read(0)).live.number == 1


async def test_what_followed_the_view_is_dropped_and_a_lost_one_is_neither_folded_nor_swapped_in(
    valkey: ValkeyClient,
) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.to_the_end(votes.live)
    await votes.generations.open(0, 2)
    assert await votes.follow() is State.FOLLOWING
    await lose(votes, 15)
    found = await votes.generations.read(0)
    assert (found.live.number, found.live.position, {*found.others}, found.swaps) == (3, None, {1}, 1)
    await votes.to_the_end(votes.live)
    with pytest.raises(GenerationGone):
        await votes.generations.touch(0, 1, Position("log", 21))
    assert await votes.generations.swap(0, 1) == Swap(False, "lost")
    assert await votes.generations.expire(0, 0) == [], "it waits for an operator"


async def test_the_gate_is_shut_until_a_fence_after_the_loss(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(5)))
    await votes.to_the_end(votes.live)
    fence = await votes.views.shut(0, 0)
    assert fence is not None
    votes.log = [*votes.log, *a_votes_log(fence, first=6)]
    await votes.to_the_end(votes.live)
    assert (await votes.views.state(0)).open
    await lose(votes, 4)
    votes.log = [*votes.log, *a_votes_log(*casts(2), fence, first=4)]
    await votes.to_the_end(votes.live)
    assert not (await votes.views.state(0)).open, "the fence that was asked for before the loss opened it"
    again = await votes.views.shut(0, fence.incarnation)
    assert isinstance(again, Fence)
    assert again.incarnation > fence.incarnation
    votes.log = [*votes.log, *a_votes_log(again, first=7)]
    await votes.to_the_end(votes.live)
    assert (await votes.views.state(0)).open


async def test_so_many_lost_views_are_kept_and_no_more(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.to_the_end(votes.live)
    for first in range(15, 10, -1):
        await lose(votes, first)
        await votes.to_the_end(votes.live)
    found = await votes.generations.read(0)
    assert [one.first_lost for _, one in sorted(found.others.items())] == [13, 12, 11]
    assert len(found.others) == MOST_LOST


async def test_the_witness_is_the_last_record_of_a_whole_batch(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    assert await votes.live.witness(0) is None
    await votes.step(votes.live, 10)
    assert await votes.live.witness(0) == (9, 1_009)
    await votes.to_the_end(votes.live)
    assert await votes.live.witness(0) == (20, 1_020)
