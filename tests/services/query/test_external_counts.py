"""External sources in the counts, what closes them, and the preview of a reopening."""

from typing import Any

from libs.tally.events import ContestClosed, ContestReopened
from tests.services.query import query_environment
from tests.services.query.query_environment import PARTITIONS, QueryEnvironment, closed_contest, contest, figures
from tests.support.clients.voting import code

MAPPING = {"A": "a", "A2": "a", "B": "b"}
REOPENING = "/contests/song/reopen"


async def song(env: QueryEnvironment, **registration: Any) -> str:
    """Two participants; text messages that name them by letters, `a` by two of them."""
    key = await query_environment.song(env)
    await env.production.register("song", "sms", **({"title": "Text messages", "mapping": MAPPING} | registration))
    return key


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
        await env.production.change("vote_sources", f"song~{source}", {"mapping": mapping, "retired": True})
    found = await env.counts(key)
    assert (found["count"], totals(found)["sms"]) == (10, (10, 7, 3))
    assert sources(found["participants"]["a"])["sms", "A"] == (10, 7, 3)
    assert "tv" not in totals(found)


async def test_the_counts_are_final_when_every_partition_and_source_has_passed_its_mark(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    await env.vote("a", 2)
    await env.production.change("contests", "song", closed_contest("ab", sms=MAPPING))
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
    assert (await env.read("/public/contests/song/results"))["final"] is True


async def test_what_changes_behind_the_closing_shows_in_no_result_before_a_reopening(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    await env.vote("a", 2)
    await env.vote("b", 3)
    await env.report("sms", ("A", 10, 7, 3))
    await env.production.change("contests", "song", closed_contest("a", sms={"A": "a"}))
    await env.close()
    position = await env.fold(ContestClosed("song", 1, "sms"))
    await env.production.change("participants", "b", {"status": "approved"})
    await env.production.change("vote_sources", "song~sms", {"mapping": {"A": "b"}, "retired": True})
    assert (await finality(env, key))[0] == "final"
    found = await env.counts(key, position=position)
    assert (found["count"], list(found["participants"])) == (12, ["a"])
    late = await env.vote("a", 100, voter="late")
    assert (await env.counts(key, position=late))["count"] == 12
    shape = (await env.legacy("/legacy/contests/song", key)).json()
    assert (shape["total_vote_count"], len(shape["participants"])) == (12, 1)
    assert (await env.read("/participants/b", key))["vote_count"] == 0
    await env.production.change("contests", "song", contest() | {"reopened": 1})
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


def standing(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["status"], entry["count"], entry["rank"]


async def test_a_reopening_takes_over_statuses_and_mappings_that_were_changed_since(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.production.enter("song", "c", status="rejected")
    await env.vote("a", 3, voter="ann")
    await env.vote("b", 2, voter="bob")
    await env.vote("c", 9, voter="cid")
    await env.report("sms", ("A", 10, 0, 0))
    assert (await env.get(REOPENING, key)).status_code == 409
    await env.production.change("contests", "song", closed_contest("ab", sms={"A": "a"}))
    await env.close()
    await env.production.change("vote_sources", "song~sms", {"title": "Sms", "mapping": {"A": "b"}})
    await env.production.change("participants", "a", {"status": "rejected"})
    await env.production.change("participants", "c", {"status": "approved"})
    await env.production.enter("song", "d")
    await env.counts(key, position=env.head())
    found = await env.read(REOPENING, key)
    assert found["contest_key"] == "song"
    assert {
        each["participant_key"]: (standing(each["before"]), standing(each["after"]))
        for each in found["participants"]
    } == {
        "a": (("approved", 13, 1), ("rejected", None, None)),
        "b": (("approved", 2, 2), ("approved", 12, 1)),
        "c": ((None, None, None), ("approved", 9, 2)),
        "d": ((None, None, None), ("approved", 0, 3)),
    }


async def test_who_may_not_see_hidden_counts_sees_no_preview(env: QueryEnvironment) -> None:
    await env.production.create("contests", "song", closed_contest("") | contest(vote_visibility="hidden"))
    assert code(await env.get(REOPENING, await env.production.reader())) == (403, "results_hidden")
