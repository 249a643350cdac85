"""Former generations: kept for a rollback, and dropped when their time is over."""

import asyncio

import pytest

from libs.projection import generation_expiry
from libs.projection.generation_expiry import Kept, expire_generations
from libs.views.generations.generations import State
from libs.views.valkey.client import ValkeyClient
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.support.eventually import eventually


async def a_swapped_one(valkey: ValkeyClient) -> Votes:
    """Of which generation 2 is read, and 1 is kept."""
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.to_the_end(votes.live)
    await votes.rebuild()
    assert (await votes.generations.read(0)).others[1].state is State.KEPT
    return votes


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
