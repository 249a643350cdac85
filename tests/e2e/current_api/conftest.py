"""The records that fields are proven with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from libs.catalogue.resources import IMAGES
from libs.catalogue.writing import Request
from services.operations.stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.support.catalogue import open_catalogue


@pytest.fixture(scope="session")
async def records(stack: Supervisor) -> AsyncIterator[Records]:
    told = stack.stack
    async with httpx.AsyncClient(
        base_url=told["base_url"], headers={"Authorization": f"Bearer {told['api_key']}"}, timeout=30
    ) as client:
        yield Records(client, await _keys(client, stack))


async def _keys(client: httpx.AsyncClient, stack: Supervisor) -> dict[str, tuple[str, str]]:
    async def two(resource: str, body: dict[str, object]) -> tuple[str, str]:
        answers = [await client.post(f"/{resource}", json=body) for _ in range(2)]
        return answers[0].json()["key"], answers[1].json()["key"]

    parts = {"days": [{"id": "friday"}, {"id": "saturday"}], "venues": [{"id": "main"}, {"id": "small"}]}
    made = {name: await two(name, {}) for name in ("articles", "shops", "master_shops")}
    images = await _images(stack)
    return made | {
        "conventions": await two("conventions", {**parts}),
        "days": ("friday", "saturday"),
        "venues": ("main", "small"),
        "images": images,
    }


async def _images(stack: Supervisor) -> tuple[str, str]:
    """Without pictures: these have tests of their own."""
    told = stack.stack
    async with open_catalogue(told["kafka"], told["valkey"], told["namespace"]) as catalogue:
        one, other = await asyncio.gather(
            *(catalogue.engine.create(IMAGES, told["account"], {}, Request.once()) for _ in range(2))
        )
    return one.stored.key, other.stored.key
