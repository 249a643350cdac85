"""Generations of another stored layout: neither read nor folded, and replaced by a replay."""

import pytest

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import State, Swap
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_libraries import pack
from tests.libs.views.generation_folds import Votes, a_votes_log, casts
from tests.libs.views.random_logs import folded
from tests.simulation.comparison import described, differing


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
    assert found.others[1].state is State.BROKEN
    assert await votes.generations.swap(0, 1) == Swap(False, "broken")


async def test_what_follows_is_folded_no_further_by_code_of_another_layout(valkey: ValkeyClient) -> None:
    votes = Votes(valkey, a_votes_log(*casts(20)))
    await votes.step(votes.live, 10)
    await votes.rebuild()
    await valkey.call("HSET", f"{votes.keys.base}:generations", "1", pack(["kept", 70, 0]))
    await votes.to_the_end(votes.live)
    assert (await votes.generations.read(0)).others[1].state is State.BROKEN
    assert await votes.generations.swap(0, 1) == Swap(False, "broken")
