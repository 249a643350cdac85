"""Generations of views: whenever one is begun, however it is cut, raced, lost and swapped, it holds what the live
one holds, and the live one never waits for it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.log_records import Behind, LogRecord, Position
from libs.projection import generation_expiry
from libs.projection.generation_expiry import Kept, expire_generations
from libs.projection.votes_projection import VotesProjection
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import GenerationGone, State, Swap
from libs.views.generations.key_scan import GenerationKey
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.libs.views.random_logs import folded, logs
from tests.simulation.comparison import described, differing
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually
from tests.support.hypothesis_examples import PROPERTY, examples

sizes = st.sampled_from([1, 2, 7, 50, 130, 300])


async def folded_votes(valkey: ValkeyClient, count: int) -> Votes:
    votes = Votes(valkey, a_votes_log(*casts(count)))
    await votes.to_the_end(votes.live)
    return votes


@settings(PROPERTY, max_examples=examples(60))
@given(log=logs, data=st.data())
async def test_a_generation_begun_at_any_moment_and_folded_anyhow_beside_the_live_one_holds_the_same(
    valkey: ValkeyClient, log: list[LogRecord], data: st.DataObject
) -> None:
    votes = Votes(valkey, log)
    opens_at = data.draw(st.integers(0, 6))
    for step in range(data.draw(st.integers(4, 16))):
        if step == opens_at:
            await votes.generations.open(0, 2)
        before = await votes.other.position(0)
        steps = ["live", "live", "other", "other", "race"] if step >= opens_at else ["live"]
        match data.draw(st.sampled_from(steps)):
            case "live":
                await votes.step(votes.live, data.draw(sizes))
            case "other":
                await votes.step(votes.other, data.draw(sizes))
            case "race":
                # the replay has fetched what, once it follows, the projector folds into both
                await votes.step(votes.live, data.draw(sizes))
                with suppress(Behind):
                    await votes.step(votes.other, data.draw(sizes), before)
    await votes.generations.open(0, 2)
    await votes.to_the_end(votes.live)
    assert await votes.follow() is State.FOLLOWING
    expected = described(folded(log))
    for number in (1, 2):
        assert not differing(await votes.seen(number), expected)
    await votes.keys.forget()


@settings(PROPERTY, max_examples=examples(40))
@given(log=logs, seed=st.integers(0, 2**32))
async def test_swapped_and_rolled_back_while_votes_come_in_both_stay_the_fold_of_the_log(
    valkey: ValkeyClient, log: list[LogRecord], seed: int
) -> None:
    votes, rng = Votes(valkey, log), Random(seed)
    await votes.step(votes.live, rng.choice([1, 9, 100]))
    await votes.generations.open(0, 2)
    wanted, swaps = 2, 0
    while (await votes.live.position(0) or Position("log", 0)).offset <= log[-1].offset:
        folding = [votes.live, votes.live, *([] if swaps else [votes.other])]
        await votes.step(rng.choice(folding), rng.choice([2, 20, 60]))
        if rng.random() < 0.5 and (await votes.generations.swap(0, wanted)).done:
            wanted, swaps = 3 - wanted, swaps + 1
    found = await votes.generations.read(0)
    assert (found.live.number, found.swaps) == (3 - wanted, swaps)
    expected = described(folded(log))
    for number in (1, 2) if swaps else (1,):
        assert not differing(await votes.seen(number), expected)
    await votes.keys.forget()


@settings(PROPERTY, max_examples=examples(60))
@given(log=logs, seed=st.integers(0, 2**32))
async def test_whatever_valkey_loses_between_any_two_steps_a_replay_taken_up_again_ends_right(
    valkey: ValkeyClient, log: list[LogRecord], seed: int
) -> None:
    votes, rng = Votes(valkey, log), Random(seed)
    copies = [await votes.keys.copy()]

    async def some_step() -> None:
        match rng.choice(["live", "live", "other", "other", "open", "touch", "swap", "drop", "sweep"]):
            case "live":
                await votes.step(votes.live, rng.choice([5, 60, 200]))
            case "other":
                await votes.step(votes.other, rng.choice([5, 60, 200]))
            case "open":
                await votes.generations.open(0, 2)
            case "touch":
                await votes.generations.touch(0, 2, await votes.other.position(0) or Position("log", 0))
            case "swap":
                await votes.generations.swap(0, 2)
            case "drop":
                await votes.generations.drop(0, 1)
            case "sweep":
                await votes.generations.sweep()

    for _ in range(25):
        with suppress(Behind, GenerationGone):
            await some_step()
        if rng.random() < 0.4:
            copies.append(await votes.keys.copy())
        if rng.random() < 0.2:
            await votes.keys.restore(rng.choice(copies[-4:]))
    await votes.rebuild()
    await votes.to_the_end(votes.live)
    assert (await votes.generations.read(0)).live.number == 2
    assert not differing(await votes.seen(2), described(folded(log)))
    await votes.generations.drop(0, 1)
    await votes.generations.sweep()
    assert not await votes.keys.held(1)
    assert not await votes.generations.open(0, 1), "the number of the live one's forerunner is given again"
    await votes.keys.forget()


async def test_no_swap_before_it_follows_at_the_very_position_of_the_live_one(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.step(votes.live, 10)
    assert await votes.generations.swap(0, 2) == Swap(False, "gone")
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 5)
    assert await votes.generations.swap(0, 2) == Swap(False, "building")
    assert await votes.follow() is State.FOLLOWING
    assert await votes.generations.swap(0, 2) == Swap(False, "moving")
    await votes.to_the_end(votes.live)
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert await votes.generations.swap(0, 2) == Swap(True)
    assert (await votes.generations.read(0)).swaps == 1


async def test_a_generation_that_cannot_be_folded_breaks_alone(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(30)))
    await votes.step(votes.live, 10)
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 20)
    await valkey.call("SET", f"{votes.keys.base}:g2:voters:contest", "no hash")
    await votes.to_the_end(votes.live)
    found = await votes.generations.read(0)
    assert found.others[2].state is State.BROKEN
    assert found.live.position == Position("log", 31)
    assert await votes.generations.swap(0, 2) == Swap(False, "broken")
    with pytest.raises(GenerationGone, match="Start the replay again"):
        await votes.follow()
    again = Votes(valkey, votes.log, 3)
    again.namespace, again.generations = votes.namespace, votes.generations
    again.other = VotesProjection(votes.live.topic, VoteViews(valkey, votes.namespace, 1, generation=3), None)
    again.live = votes.live
    await again.rebuild()
    assert (await votes.generations.read(0)).live.number == 3


async def test_a_number_is_never_given_twice(valkey: ValkeyClient) -> None:
    votes = await folded_votes(valkey, 5)
    await votes.generations.open(0, 4)
    await votes.generations.drop(0, 4)
    await votes.generations.sweep()
    assert [await votes.generations.open(0, number) for number in (1, 2, 4, 5)] == [False, False, False, True]
    await votes.generations.drop(0, 1)
    assert (await votes.generations.read(0)).live.number == 1, "the live one was dropped"


async def test_sweeping_leaves_what_is_opened_meanwhile(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    votes = await folded_votes(valkey, 5)
    read_all, keys_of = votes.generations.read_all, votes.generations._keys

    async def begun_between() -> None:
        await votes.generations.open(0, 2)
        await votes.to_the_end(votes.other)

    async def read_then_begin() -> Any:
        found = await read_all()
        await begun_between()
        return found

    async def walk_then_begin() -> AsyncIterator[GenerationKey]:
        async for key in keys_of():
            yield key
        await begun_between()

    monkeypatch.setattr(votes.generations, "read_all", read_then_begin)
    monkeypatch.setattr(votes.generations, "_keys", walk_then_begin)
    assert await votes.generations.sweep() == 0
    assert await votes.keys.held(2) == await votes.keys.held(1)


async def test_sweeping_leaves_what_begins_anew_after_a_loss_of_all_data(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers begin again at 1, which was dropped when the sweep began."""
    votes = await folded_votes(valkey, 5)
    await votes.rebuild()
    await votes.generations.drop(0, 1)
    keys_of = votes.generations._keys

    async def walk_then_lose() -> AsyncIterator[GenerationKey]:
        found = [key async for key in keys_of()]
        await votes.keys.forget()
        await votes.to_the_end(votes.live)
        for key in found:
            yield key

    monkeypatch.setattr(votes.generations, "_keys", walk_then_lose)
    assert await votes.generations.sweep() == 0
    assert await votes.keys.held(1)
    assert (await votes.generations.read(0)).live.number == 1


async def test_readers_hear_of_a_swap_though_no_vote_has_come(valkey: ValkeyClient) -> None:
    votes = await folded_votes(valkey, 9)
    counts = f"{votes.keys.base}:g1:counts:contest"
    await valkey.call("HSET", counts, "a", await valkey.call("HGET", counts, "b"))
    known = await votes.views.counts(0, "contest")
    assert await votes.views.counts(0, "contest", known) is None
    await votes.rebuild()
    assert (await votes.views.counts(0, "contest", known)) != known


async def test_views_of_another_layout_are_neither_read_nor_folded_until_a_replay_has_made_new_ones(
    valkey: ValkeyClient,
) -> None:
    votes = Votes(valkey, a_votes_log(*casts(30)))
    await votes.step(votes.live, 10)
    await votes.generations.open(0, 2)
    await votes.step(votes.other, 10)
    await valkey.call("HSET", f"{votes.keys.base}:generations", "schema", 70)
    for refused in (votes.views.state(0), votes.views.counts(0, "contest")):
        with pytest.raises(ViewsUnavailable, match=r"layout 70, this version has .*rebuilds them"):
            await refused
    with pytest.raises(ViewsUnavailable, match="rebuilds them"):
        await votes.views.apply(0, Position("log", 10), [], 11)
    assert await votes.follow() is State.FOLLOWING
    assert await votes.generations.swap(0, 2) == Swap(True), "what is stuck was waited for"
    assert (await votes.views.state(0)).position == Position("log", 31)
    assert not differing(await votes.seen(2), described(folded(list(votes.log))))
    found = await votes.generations.read(0)
    assert found.others[1].state is State.OTHER_LAYOUT
    assert await votes.generations.swap(0, 1) == Swap(False, "broken")


async def a_swapped_one(valkey: ValkeyClient) -> Votes:
    """Of which generation 2 is read, and 1 is kept for a rollback."""
    votes = await folded_votes(valkey, 20)
    await votes.rebuild()
    assert (await votes.generations.read(0)).others[1].state is State.KEPT
    return votes


async def test_a_projector_drops_what_was_kept_long_enough(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation_expiry, "POLL_S", 0.05)
    votes = await a_swapped_one(valkey)
    others = await a_swapped_one(valkey)
    folds: list[Kept] = [(votes.generations, lambda: [0]), (others.generations, lambda: [])]
    assert await votes.keys.held(1)
    keeping = asyncio.create_task(expire_generations(folds, keep_s=1))
    await eventually(lambda: is_gone(votes))
    keeping.cancel()
    assert await others.keys.held(1)


async def is_gone(votes: Votes) -> bool:
    return not (await votes.generations.read(0)).others and not await votes.generations.names({1})
