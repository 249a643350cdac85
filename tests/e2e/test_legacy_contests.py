"""Legacy contests together with votes, closings, images and the current API."""

import asyncio
from typing import Any

import httpx
import pytest

from tests.support.pictures import picture
from tests.support.voting import Api, hours_from_now


def ok(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    shape: dict[str, Any] = answer.json()
    return shape


RUNNING = {"published": True, "start": hours_from_now(-1), "end": hours_from_now(1)}


@pytest.mark.secured
async def test_a_contest_made_by_legacy_is_voted_in_through_the_current_api_and_shown_by_both(
    api: Api, legacy: httpx.AsyncClient
) -> None:
    body = RUNNING | {"add_participants": [{"title": "Ann"}, {"title": "Bob"}], "participant_order": "vote_count"}
    made = ok(await legacy.post("/contests", json=body))
    ann, bob = (entry["participant_key"] for entry in made["participants"])
    where = f"/contests/{made['contest_id']}"
    vote = {"participant_key": bob, "voter_id": "v1"}
    accepted = await api.client.post(f"{where}/votes", json=vote)
    assert accepted.status_code == 201, accepted.text
    paid = await api.client.post(f"{where}/votes", json=vote | {"source": "c-paid"})
    assert (paid.status_code, paid.json()["code"]) == (409, "participant_limit_reached")  # star votes: 0
    position = {"min_position": accepted.headers["tally-position"]}
    assert (await api.client.get(f"{where}/vote_updates/", params=position)).json()["count"] == 1
    for shape in (ok(await legacy.get(where)), ok(await legacy.post(where, json={"text": "Now with votes"}))):
        assert (shape["total_vote_count"], shape["unique_voter_count"]) == (1, 1)
        shown = [(entry["participant_key"], entry["vote_count"]) for entry in shape["participants"]]
        assert shown == [(bob, 1), (ann, 0)]
    allowed = ok(
        await legacy.post(where, json={"max_star_votes_per_participant": 2, "max_star_votes_in_contest": -1})
    )
    assert allowed["star_vote_config"]["max_star_votes_per_participant"] == 2
    assert (await api.client.post(f"{where}/votes", json=vote | {"source": "c-paid"})).status_code == 201


@pytest.mark.secured
async def test_concurrent_legacy_and_current_writes_lose_nothing(api: Api, legacy: httpx.AsyncClient) -> None:
    made = await api.contest(0, {"title": "Song"})
    for number in range(5):
        answers = await asyncio.gather(
            legacy.post(made.path, json={"text": str(number)}),
            legacy.post(made.path, json={"max_star_votes_in_contest": number}),
            api.client.patch(made.path, json={"style": {"size": number}}),
        )
        assert [answer.status_code for answer in answers] == [200, 200, 200]
        now = (await api.client.get(made.path)).json()
        assert (now["description"], now["style"], now["contest_config"]["paid"]["max_contest"]) == (
            str(number),
            {"size": number},
            number,
        )


@pytest.mark.secured
async def test_images_are_shown_where_contests_and_participants_have_them(
    api: Api, legacy: httpx.AsyncClient
) -> None:
    uploaded = await api.client.post("/images", files={"file": ("a.png", picture(), "image/png")})
    key = uploaded.json()["key"]
    entries = [{"title": "Ann", "image_id": key}]
    shape = ok(await legacy.post("/contests", json={"image_id": key, "add_participants": entries}))
    for image in (shape["image"], shape["participants"][0]["image"]):
        assert (image["image_id"], image["ratio"], image["brand"]) == (key, 2.0, shape["brand"])
        assert image["created"] is not None
    one = ok(await legacy.get(f"/participants/{shape['participants'][0]['participant_key']}"))
    assert (one["image"]["image_id"], one["image"]["ratio"]) == (key, 2.0)
    in_use = await api.client.delete(f"/images/{key}")
    assert in_use.status_code == 409
    cleared = ok(await legacy.post(f"/contests/{shape['contest_id']}", json={"image_id": ""}))
    assert cleared["image"] is None
