"""Records for the tests of fields."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.support.builders.pictures import picture
from tests.support.clients.stack_keys import development_client


@pytest.fixture(scope="module")
async def records(stack: Supervisor) -> AsyncIterator[Records]:
    async with development_client(stack.stack) as client:
        yield Records(client, await _keys(client))


async def _keys(client: httpx.AsyncClient) -> dict[str, tuple[str, str]]:
    async def two(resource: str, **sent: Any) -> tuple[str, str]:
        one, other = [(await client.post(f"/{resource}", **sent)).json()["key"] for _ in range(2)]
        return one, other

    parts = {"days": [{"id": "friday"}, {"id": "saturday"}], "venues": [{"id": "main"}, {"id": "small"}]}
    return {
        "articles": await two("articles", json={}),
        "shops": await two("shops", json={}),
        "master_shops": await two("master_shops", json={}),
        "conventions": await two("conventions", json=parts),
        "days": ("friday", "saturday"),
        "venues": ("main", "small"),
        "images": await two("images", files={"file": ("picture.png", picture())}),
    }
