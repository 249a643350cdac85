"""Legacy rules that hold alike in both of its environments: publishing, lists, and unusable images."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.conftest import legacy_client
from tests.support.voting import Api


@pytest.fixture(params=["", "test_"], ids=["production", "test"])
async def brand(stack: Supervisor, request: pytest.FixtureRequest) -> AsyncIterator[httpx.AsyncClient]:
    async with legacy_client(stack.stack, request.param) as client:
        yield client


def ok(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    shape: dict[str, Any] = answer.json()
    return shape


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


@pytest.mark.parametrize("image", ["none", 7, {"a": 1}])
async def test_an_image_that_cannot_be_used_is_dropped_and_its_participant_kept(
    brand: httpx.AsyncClient, image: object
) -> None:
    entries = [{"title": "Ann", "image_id": image}, {"title": "Bob"}, 5, {"title": ["no text"], "image_id": image}]
    made = ok(await brand.post("/contests", json={"published": True, "add_participants": entries}))
    shown = [(entry["title"], entry["image"]) for entry in made["participants"]]
    assert sorted(shown) == [("Ann", None), ("Bob", None)]
