"""Former generations: kept for a rollback, and dropped when their time is over."""

import asyncio

import pytest

from libs.contracts.log_records import Position
from libs.projection import generation_expiry
from libs.projection.generation_expiry import Kept, expire_generations
from libs.projection.votes_projection import VotesProjection
from libs.views.generations.generations import State, Swap
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_libraries import pack
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.support.eventually import eventually
from tests.support.vote_views import VoteViews


async def a_swapped_one(valkey: ValkeyClient) -> Votes:
    """Of which generation 2 is read, and 1 is kept."""
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.to_the_end(votes.live)
    await votes.rebuild()
    assert (await votes.generations.read(0)).others[1].state is State.KEPT
    return votes


async def swapped_in(votes: Votes, number: int) -> Swap:
    """Another one, folded from the beginning."""
    assert await votes.generations.open(0, number)
    views = VoteViews(votes.keys.valkey, votes.namespace, 1, generation=number)
    await votes.to_the_end(VotesProjection(votes.live.topic, views, None))
    await votes.generations.touch(0, number, Position("log", len(votes.log)))
    return await votes.generations.swap(0, number)


async def test_one_former_generation_is_kept_and_the_next_swap_gives_it_up(valkey: ValkeyClient) -> None:
    votes = await a_swapped_one(valkey)
    assert await swapped_in(votes, 3) == Swap(True)
    found = await votes.generations.read(0)
    assert (found.live.number, {one.number: one.state for one in found.others.values()}) == (3, {2: State.KEPT})
    assert await votes.generations.renew(0, 2)
    assert await swapped_in(votes, 4) == Swap(True)
    assert not await votes.generations.renew(0, 2)


async def test_a_kept_generation_is_dropped_when_its_time_is_over_and_not_before(valkey: ValkeyClient) -> None:
    votes = await a_swapped_one(valkey)
    generations = votes.generations
    kept = (await generations.read(0)).others[1]
    assert kept.kept_since is not None
    assert await generations.expire(0, 3_600) == []
    assert (await generations.swap(0, 1)).done
    assert await generations.expire(0, 0) == [2], "what is read was dropped, or what is kept was not"
    assert (await generations.read(0)).live.number == 1
    assert (await generations.swap(0, 2)) == Swap(False, "gone")
    await generations.sweep()
    assert not await votes.keys.held(2)


async def test_the_time_of_a_kept_generation_begins_again_when_it_is_asked_for(valkey: ValkeyClient) -> None:
    """So a rollback that renews all partitions first finds all of them there."""
    votes = await a_swapped_one(valkey)
    key, now = f"{votes.keys.base}:generations", int((await valkey.call("TIME"))[0])
    schema = (await votes.generations.read(0)).schema
    await valkey.call("HSET", key, "1", pack(["kept", schema, now - 1_000]))
    assert (await votes.generations.read(0)).others[1].kept_since == now - 1_000
    assert await votes.generations.renew(0, 1)
    assert await votes.generations.expire(0, 900) == []
    assert (await votes.generations.swap(0, 1)).done


async def test_a_projector_drops_what_was_kept_long_enough(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generation_expiry, "POLL_S", 0.05)
    votes = await a_swapped_one(valkey)
    others = await a_swapped_one(valkey)
    folds: list[Kept] = [
        (votes.generations, lambda: [0]),
        (others.generations, lambda: []),
    ]
    assert await votes.keys.held(1)
    keeping = asyncio.create_task(expire_generations(folds, keep_s=1))
    await eventually(lambda: is_gone(votes))
    keeping.cancel()
    assert await others.keys.held(1)


async def is_gone(votes: Votes) -> bool:
    return not (await votes.generations.read(0)).others and not await votes.generations.names({1})
