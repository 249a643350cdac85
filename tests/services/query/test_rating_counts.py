"""Ratings in the counts of rating contests: sums to the millionth, averages, and sub-ratings."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from libs.results.contest_results import rating
from libs.tally.counts import RatingSums
from libs.tally.events import Rating
from libs.views.votes.timeline import MINUTE_MS
from tests.services.query.query_environment import QueryEnvironment, contest
from tests.services.query.timeline_reads import minute, read

MILLION = 1_000_000
SCALE = {
    "max_rating": 10,
    "step_size": "fraction",
    "sub_rating_configs": [{"sub_rating_id": "voice"}, {"sub_rating_id": "show"}],
}


def rated(**config: Any) -> dict[str, Any]:
    """A rating contest with two sub-ratings."""
    return contest(**({"rating": SCALE} | config)) | {"contest_type": "rating"}


async def song(env: QueryEnvironment) -> str:
    await env.production.create("contests", "song", rated())
    for participant in "ab":
        await env.production.enter("song", participant)
    return await env.production.key()


async def rate(env: QueryEnvironment, participant: str, value: float, voter: str, **subs: float) -> None:
    given = tuple((name, int(sub * MILLION)) for name, sub in sorted(subs.items()))
    await env.vote(
        participant, voter=voter, form="rating", rating=Rating(int(value * MILLION), given), max_participant=1
    )


def shown(total: float, average: float | None, distribution: dict[str, int], *subs: Any) -> dict[str, Any]:
    """Ratings of a record; `subs` are sum and average of the sub-ratings."""
    sub_ratings = {
        name: {"sum": sub[0], "average": sub[1]} for name, sub in zip(("voice", "show"), subs, strict=True)
    }
    return {"sum": total, "average": average, "distribution": distribution, "sub_ratings": sub_ratings}


async def test_ratings_stand_beside_the_counts_of_participants_and_contest(env: QueryEnvironment) -> None:
    key = await song(env)
    await rate(env, "a", 4.5, "ann", voice=4)
    await rate(env, "a", 9, "bob", voice=5, show=1.5)
    await rate(env, "b", 1, "bob")
    found = await env.counts(key)
    given, none = ((9, 4.5), (1.5, 1.5)), (0, None)
    assert found["participants"]["a"]["rating"] == shown(13.5, 6.75, {"5": 1, "9": 1}, *given)
    assert found["participants"]["b"]["rating"] == shown(1, 1, {"1": 1}, none, none)
    assert found["rating"] == shown(14.5, 4.833333, {"1": 1, "5": 1, "9": 1}, *given)
    assert (found["count"], found["unique_voter_count"]) == (3, 2)
    assert [found["participants"][participant]["count"] for participant in "ab"] == [2, 1]
    assert (await env.counts(key, query=""))["rating"] == found["rating"]


async def test_a_timeline_has_what_averages_over_time_are_made_of(env: QueryEnvironment) -> None:
    key = await song(env)
    await rate(env, "a", 4.5, "ann")
    env.clock_ms += MINUTE_MS
    await rate(env, "a", 9, "bob")
    env.clock_ms += MINUTE_MS
    await rate(env, "a", 3, "ann")  # in place of the first one
    for to in (3, 4):  # the latest minute is not settled at first
        found = await read(env, key, to=minute(to))
        ratings = [each["rating"] for each in found["participants"]]
        nothing = [0] * (to - 3)
        assert ratings[0] == {"count": [1, 1, 0, *nothing], "sum": [4.5, 9, -1.5, *nothing]}
        assert ratings[1] == {"count": [0] * to, "sum": [0] * to}
        env.clock_ms += MINUTE_MS


async def test_public_results_rank_by_average_and_limit_by_it(env: QueryEnvironment) -> None:
    await song(env)
    await rate(env, "b", 9, "ann")
    for voter in ("bob", "cid", "dan"):
        await rate(env, "a", 4, voter)
    await env.production.enter("song", "c")
    path, members = "/public/contests/song/results", ("participant_key", "rank", "average", "count")
    found = [[entry[name] for name in members] for entry in (await env.read(path))["participants"]]
    assert found == [["a", 2, 4, 3], ["b", 1, 9, 1], ["c", 3, None, 0]]
    rules = {"participant_order": "vote_count", "limit_result_amount": 1}
    await env.production.change("contests", "song", rated(**rules))
    assert [entry["participant_key"] for entry in (await env.read(path))["participants"]] == ["b"]


async def test_a_sub_rating_that_is_no_more_on_the_scale_shows_what_it_was_given(env: QueryEnvironment) -> None:
    key = await song(env)
    await rate(env, "a", 4, "ann", voice=2)
    await env.production.change("contests", "song", rated(rating=SCALE | {"sub_rating_configs": []}))
    assert (await env.counts(key))["rating"]["sub_ratings"] == {"voice": {"sum": 2, "average": 2}}


@given(st.lists(st.integers(0, 10 * MILLION), max_size=50))
def test_sums_are_exact_and_averages_to_the_nearest_millionth(values: list[int]) -> None:
    found = rating((), RatingSums(len(values), sum(values)))
    assert round(found["sum"] * MILLION) == sum(values)
    if values:
        assert abs(found["average"] * MILLION - sum(values) / len(values)) <= 0.5 + 1e-6
        assert len(repr(found["average"]).partition(".")[2].partition("e")[0]) <= 6
    else:
        assert found["average"] is None
