"""Records for the tests of fields."""

import io
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from PIL import Image

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.support.http_clients import http_client


@pytest.fixture(scope="module")
async def records(stack: Supervisor) -> AsyncIterator[Records]:
    addresses = stack.stack
    async with http_client(
        base_url=addresses["base_url"], headers={"Authorization": f"Bearer {addresses['api_key']}"}, timeout=30
    ) as client:
        yield Records(client, await _keys(client))


async def _keys(client: httpx.AsyncClient) -> dict[str, tuple[str, str]]:
    async def two(resource: str, **sent: Any) -> tuple[str, str]:
        one, other = [(await client.post(f"/{resource}", **sent)).json()["key"] for _ in range(2)]
        return one, other

    picture = io.BytesIO()
    Image.new("RGB", (3, 2)).save(picture, "png")
    parts = {"days": [{"id": "friday"}, {"id": "saturday"}], "venues": [{"id": "main"}, {"id": "small"}]}
    return {
        "articles": await two("articles", json={}),
        "shops": await two("shops", json={}),
        "master_shops": await two("master_shops", json={}),
        "conventions": await two("conventions", json=parts),
        "days": ("friday", "saturday"),
        "venues": ("main", "small"),
        "images": await two("images", files={"file": ("picture.png", picture.getvalue())}),
    }
