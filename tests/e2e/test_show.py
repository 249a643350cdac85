"""The show of a contest: control desks on several machines, and a result that is released by hand."""

from typing import Any

import httpx
import pytest

from tests.support.http_clients import http_client
from tests.support.voting import Api, code, hours_from_now, running

SAVED = {
    "state": "live",
    "held_at": None,
    "revealed": 0,
    "reveals": "counts",
    "is_released": False,
    "released_at": None,
    "call_to_vote": {"is_shown": False, "url": None, "text": None},
    "message": None,
}


async def test_two_desks_see_the_truth_and_do_not_overwrite_each_other(api: Api) -> None:
    contest = await api.contest()
    show = f"{contest.path}/show"
    first = await api.client.get(show)
    assert (first.status_code, first.json()) == (200, SAVED | {"contest_key": contest.key, "updated": None})
    held = await api.client.put(show, json={"state": "held"}, headers={"if-match": first.headers["etag"]})
    assert (held.status_code, held.json()["state"], held.json()["held_at"] is not None) == (200, "held", True)
    late = await api.client.put(show, json={"state": "live"}, headers={"if-match": first.headers["etag"]})
    assert code(late) == (412, "version_conflict")
    seen = await api.client.get(show)
    assert (seen.json(), seen.headers["etag"]) == (held.json(), held.headers["etag"])
    unchanged = await api.client.get(show, headers={"if-none-match": held.headers["etag"]})
    assert unchanged.status_code == 304
    # what was read can be sent back, with a change; since when it is held stays until a reveal begins
    noted = await api.client.put(show, json=seen.json() | {"message": "Now!"})
    assert noted.json()["held_at"] == held.json()["held_at"]
    revealing = await api.client.put(show, json=noted.json() | {"state": "reveal"})
    assert revealing.json()["held_at"] > held.json()["held_at"]
    further = await api.client.put(show, json=revealing.json() | {"revealed": 2})
    assert (further.json()["held_at"], further.json()["revealed"]) == (revealing.json()["held_at"], 2)
    live = await api.client.put(show, json={})
    assert live.json() == SAVED | {"contest_key": contest.key, "updated": live.json()["updated"]}


async def test_who_may_not_direct_the_show_only_reads_it(api: Api) -> None:
    contest = await api.contest()
    body = {"permissions": ["results:read"], "name": "wall"}
    made = await api.client.post("/keys", json=body)
    assert made.status_code == 201, made.text
    headers = {"authorization": f"Bearer {made.json()['api_key']}"}
    async with http_client(base_url=api.client.base_url, headers=headers) as wall:
        assert (await wall.get(f"{contest.path}/show")).status_code == 200
        refused = await wall.put(f"{contest.path}/show", json={})
        assert (code(refused), refused.json()["permission"]) == ((403, "forbidden"), "show:control")
    assert code(await api.client.put("/contests/none/show", json={})) == (404, "not_found")
    assert code(await api.client.get("/contests/none/show")) == (404, "not_found")
    wrong = await api.client.put(f"{contest.path}/show", json={"state": "paused", "revealed": -1})
    assert code(wrong) == (422, "validation_failed")
    assert {error["pointer"] for error in wrong.json()["errors"]} == {"/state", "/revealed"}


@pytest.mark.secured
async def test_a_result_released_by_hand_stays_hidden_after_the_end_until_the_release(
    api: Api, legacy: httpx.AsyncClient
) -> None:
    contest = await api.contest(
        body=running(result_release="by_hand", vote_visibility="hidden_until_vote", end=hours_from_now(1))
    )
    receipt = (await contest.vote(0)).json()["receipt"]
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
    async with http_client(base_url=api.client.base_url) as anonymous:

        async def counts() -> list[Any]:
            public = f"/public{contest.path}/results"
            return [
                (await anonymous.get(public)).json()["count"],
                (await anonymous.get(public, params={"receipt": receipt})).json()["count"],
                (await legacy.get(contest.path)).json()["total_vote_count"],
            ]

        assert (await counts())[:2] == [None, None]
        released = await api.client.put(f"{contest.path}/show", json={"is_released": True})
        assert released.json()["released_at"] is not None
        assert await counts() == [1, 1, 1]
