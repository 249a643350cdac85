"""Legacy contests: with votes, images and the current API, and rules that hold in both of its environments."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.conftest import legacy_client
from tests.support.builders.pictures import picture
from tests.support.clients.http_clients import ok
from tests.support.clients.voting import Api, hours_from_now

RUNNING = {"published": True, "start": hours_from_now(-1), "end": hours_from_now(24)}
"""Until long after a run that takes hours."""


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


@pytest.fixture(params=["", "test_"], ids=["production", "test"])
async def brand(stack: Supervisor, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    async with legacy_client(stack.stack, request.param) as client:
        yield client


async def listed(brand: httpx.AsyncClient) -> set[str]:
    """Return the ids of all contests in the brand's list."""
    path, query, found = f"/brands/{brand.headers['service-brand']}/contests", dict[str, str](), set[str]()
    while True:
        page = ok(await brand.get(path, params=query))
        found |= {contest["contest_id"] for contest in page["contests"]}
        if "next" not in page:
            return found
        query = {"next": page["next"]}


async def test_a_contest_that_is_not_listed_is_read_by_its_id(brand: httpx.AsyncClient) -> None:
    shown = ok(await brand.post("/contests", json={"published": True}))["contest_id"]
    hidden = ok(await brand.post("/contests", json={"published": True, "contest_visibility": "not_listed"}))
    found = await listed(brand)
    assert (shown in found, hidden["contest_id"] in found) == (True, False)
    path = f"/contests/{hidden['contest_id']}"
    assert ok(await brand.get(path))["contest_config"]["contest_visibility"] == "not_listed"
    ok(await brand.post(path, json={"contest_visibility": "listed"}))
    assert hidden["contest_id"] in await listed(brand)


async def test_a_contest_that_is_not_listed_keeps_its_place_in_the_current_api(
    api: Api, legacy: httpx.AsyncClient
) -> None:
    made = ok(await legacy.post("/contests", json={"published": True, "contest_visibility": "not_listed"}))
    keys = {record["key"] for record in (await api.client.get("/contests", params={"limit": 100})).json()["data"]}
    assert made["contest_id"] in keys
    assert (await api.client.get(f"/public/contests/{made['contest_id']}/results")).status_code == 200


async def test_an_image_that_cannot_be_used_is_dropped_and_its_participant_kept(brand: httpx.AsyncClient) -> None:
    entries: list[Any] = [{"title": str(image), "image_id": image} for image in ("none", 7, {"a": 1})]
    entries += [{"title": "Bob"}, 5, {"title": ["no text"], "image_id": "none"}]
    made = ok(await brand.post("/contests", json={"published": True, "add_participants": entries}))
    shown = {entry["title"]: entry["image"] for entry in made["participants"]}
    assert shown == dict.fromkeys(("none", "7", "{'a': 1}", "Bob"))
