"""The preview of a reopening: the final result, and the one with the present statuses and sources."""

from typing import Any

from tests.services.query.query_environment import QueryEnvironment, closed_contest, contest

PATH = "/contests/song/reopen"


def standing(entry: dict[str, Any]) -> tuple[Any, ...]:
    return entry["status"], entry["count"], entry["rank"]


async def test_a_reopening_takes_over_statuses_and_mappings_that_were_changed_since(env: QueryEnvironment) -> None:
    key = await env.production.key()
    await env.production.create("contests", "song", contest())
    for participant, status in (("a", "approved"), ("b", "approved"), ("c", "rejected")):
        await env.production.enter("song", participant, title=participant.upper(), status=status)
    await env.production.register("song", "sms", title="Sms", mapping={"A": "a"}, is_in_total=True)
    await env.vote("a", 3, voter="ann")
    await env.vote("b", 2, voter="bob")
    await env.vote("c", 9, voter="cid")
    await env.report("sms", ("A", 10, 0, 0))
    assert (await env.get(PATH, key)).status_code == 409
    await env.production.change("contests", "song", closed_contest("ab", sms={"A": "a"}), "song")
    await env.close()
    moved = {"title": "Sms", "mapping": {"A": "b"}, "is_in_total": True}
    await env.production.change("vote_sources", "song~sms", moved, "song")
    await env.production.change("participants", "a", {"status": "rejected"}, "song")
    await env.production.change("participants", "c", {"status": "approved"}, "song")
    await env.production.enter("song", "d")
    await env.counts(key, position=env.head())
    found = (await env.get(PATH, key)).json()
    assert found["contest_key"] == "song"
    shown = {
        each["participant_key"]: (standing(each["before"]), standing(each["after"]))
        for each in found["participants"]
    }
    assert shown == {
        "a": (("approved", 13, 1), ("rejected", None, None)),
        "b": (("approved", 2, 2), ("approved", 12, 1)),
        "c": ((None, None, None), ("approved", 9, 2)),
        "d": ((None, None, None), ("approved", 0, 3)),
    }


async def test_who_may_not_see_hidden_counts_sees_no_preview(env: QueryEnvironment) -> None:
    await env.production.create("contests", "song", closed_contest("") | contest(vote_visibility="hidden"))
    reader = await env.production.key(permissions=("results:read",))
    answer = await env.get(PATH, reader)
    assert (answer.status_code, answer.json()["code"]) == (403, "results_hidden")
