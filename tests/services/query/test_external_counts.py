"""External sources in the counts: by their own ids, in or beside the total, final after their markers."""

from typing import Any

from libs.tally.events import ContestClosed, ContestReopened
from tests.services.query import query_environment
from tests.services.query.query_environment import PARTITIONS, QueryEnvironment, closed_contest, contest

COUNTED = ("count", "unique_voter_count", "anonymous_voter_count")
MAPPING = {"A": "a", "A2": "a", "B": "b"}


async def song(env: QueryEnvironment, **registration: Any) -> str:
    """Two participants; text messages that name them by letters, `a` by two of them."""
    key = await query_environment.song(env)
    await env.production.register("song", "sms", **({"title": "Text messages", "mapping": MAPPING} | registration))
    return key


def figures(counted: dict[str, Any]) -> tuple[int, int, int]:
    votes, unique, anonymous = (counted[name] for name in COUNTED)
    return votes, unique, anonymous


def sources(entry: dict[str, Any]) -> dict[tuple[str, str | None], tuple[int, int, int]]:
    return {(of["source"], of.get("mapped_id")): figures(of) for of in entry["vote_sources"]}


def totals(found: dict[str, Any]) -> dict[str, tuple[int, int, int]]:
    return {of["source"]: figures(of) for of in found["total_vote_sources"]}


async def test_external_figures_are_added_to_those_of_the_participants_they_are_mapped_to(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    await env.vote("a", 2, voter="ann")
    await env.vote("b", 1, voter="guest", anonymous=True)
    await env.report("sms", ("A", 10, 7, 3), ("B", 4, 4, 1))
    found = await env.counts(key)
    assert figures(found) == (17, 13, 5)
    a, b = (found["participants"][participant] for participant in "ab")
    assert (figures(a), figures(b)) == ((12, 8, 3), (5, 5, 2))
    assert list(sources(a).items()) == [
        (("c-free", None), (2, 1, 0)),
        (("c-paid", None), (0, 0, 0)),
        (("sms", "A"), (10, 7, 3)),
        (("sms", "A2"), (0, 0, 0)),
    ]
    assert sources(b)["sms", "B"] == (4, 4, 1)
    assert totals(found) == {"c-free": (3, 2, 1), "c-paid": (0, 0, 0), "sms": (14, 11, 4)}
    sms = found["total_vote_sources"][2]
    assert (sms["title"], sms["is_in_total"], sms["is_internal"]) == ("Text messages", True, False)


async def test_a_retired_source_stays_with_what_it_counted(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.production.register("song", "tv", mapping={"1": "a"})
    await env.report("sms", ("A", 10, 7, 3))
    for source, mapping in (("sms", MAPPING), ("tv", {"1": "a"})):
        await env.production.change(
            "vote_sources", f"song~{source}", {"mapping": mapping, "retired": True}, "song"
        )
    found = await env.counts(key)
    assert (found["count"], totals(found)["sms"]) == (10, (10, 7, 3))
    assert sources(found["participants"]["a"])["sms", "A"] == (10, 7, 3)
    assert "tv" not in totals(found)


async def test_legacy_and_current_reads_and_the_public_see_the_same_numbers(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.vote("a", 2)
    await env.report("sms", ("A", 10, 7, 3))
    shape = (await env.legacy("/legacy/contests/song", key)).json()
    assert (shape["total_vote_count"], shape["unique_voter_count"]) == (12, 8)
    assert [entry["vote_count"] for entry in shape["participants"]] == [12, 0]
    for entry in (
        (await env.legacy("/legacy/participants/a", key)).json(),
        (await env.get("/participants/a", key)).json(),
    ):
        assert (entry["vote_count"], entry["rater_count"]) == (12, 8)
    public = (await env.client.get("/public/contests/song/results")).json()
    assert (public["count"], [entry["count"] for entry in public["participants"]]) == (12, [12, 0])


async def test_the_counts_are_final_when_every_partition_and_source_has_passed_its_mark(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    await env.vote("a", 2)
    await env.production.change("contests", "song", closed_contest("ab", sms=MAPPING), "song")
    tags = {await finality(env, key)}
    for partition in range(PARTITIONS):
        await env.fold(ContestClosed("song", 1), partition)
        tags.add(await finality(env, key))
    assert {state for state, _ in tags} == {"provisional"}
    position = await env.report("sms", ("A", 10, 7, 3))
    assert (await env.counts(key, position=position))["count"] == 12
    before = await finality(env, key)
    position = await env.fold(ContestClosed("song", 1, "sms"))
    found = await env.counts(key, position=position)
    after = await finality(env, key)
    assert (before[0], after[0], found["count"]) == ("provisional", "final", 12)
    assert before[1] != after[1]
    assert (await env.client.get("/public/contests/song/results")).json()["final"] is True


async def test_what_changes_behind_the_closing_shows_in_no_result_before_a_reopening(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    await env.vote("a", 2)
    await env.vote("b", 3)
    await env.report("sms", ("A", 10, 7, 3))
    await env.production.change("contests", "song", closed_contest("a", sms={"A": "a"}), "song")
    await env.close()
    position = await env.fold(ContestClosed("song", 1, "sms"))
    await env.production.change("participants", "b", {"status": "approved"}, "song")
    await env.production.change("vote_sources", "song~sms", {"mapping": {"A": "b"}, "retired": True}, "song")
    assert (await finality(env, key))[0] == "final"
    found = await env.counts(key, position=position)
    assert (found["count"], list(found["participants"])) == (12, ["a"])
    late = await env.vote("a", 100, voter="late")
    assert (await env.counts(key, position=late))["count"] == 12
    shape = (await env.legacy("/legacy/contests/song", key)).json()
    assert (shape["total_vote_count"], len(shape["participants"])) == (12, 1)
    assert (await env.get("/participants/b", key)).json()["vote_count"] == 0
    await env.production.change("contests", "song", contest() | {"reopened": 1}, "song")
    for partition in range(PARTITIONS):
        position = await env.fold(ContestReopened("song", 1), partition)
    found = await env.counts(key, position=position)
    assert (found["count"], (await finality(env, key))[0]) == (15, "provisional")
    assert figures(found["participants"]["b"]) == (13, 8, 3)


async def finality(env: QueryEnvironment, key: str) -> tuple[str, str]:
    """`Tally-Final` and the entity tag, with everything that was folded."""
    position = env.head()
    answer = await env.get(f"/contests/song/vote_updates?sources=true&min_position={position}", key)
    return answer.headers["tally-final"], answer.headers["etag"]
