"""The records that fields are proven with."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from services.operations.stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.support.pictures import picture


@pytest.fixture(scope="session")
async def records(stack: Supervisor) -> AsyncIterator[Records]:
    told = stack.stack
    async with httpx.AsyncClient(
        base_url=told["base_url"], headers={"Authorization": f"Bearer {told['api_key']}"}, timeout=30
    ) as client:
        yield Records(client, await _keys(client))


async def _keys(client: httpx.AsyncClient) -> dict[str, tuple[str, str]]:
    async def two(resource: str, body: dict[str, object]) -> tuple[str, str]:
        answers = [await client.post(f"/{resource}", json=body) for _ in range(2)]
        return answers[0].json()["key"], answers[1].json()["key"]

    parts = {"days": [{"id": "friday"}, {"id": "saturday"}], "venues": [{"id": "main"}, {"id": "small"}]}
    made = {name: await two(name, {}) for name in ("articles", "shops", "master_shops")}
    return made | {
        "conventions": await two("conventions", {**parts}),
        "days": ("friday", "saturday"),
        "venues": ("main", "small"),
        "images": await _images(client),
    }


async def _images(client: httpx.AsyncClient) -> tuple[str, str]:
    answers = [await client.post("/images", files={"file": ("a.png", picture())}) for _ in range(2)]
    return answers[0].json()["key"], answers[1].json()["key"]
