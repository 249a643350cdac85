"""Lists: newest first, stable pages during writes, filters by tags and by time of change."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.endpoints import ENDPOINTS
from tests.support.stack_keys import client_with
from tests.support.voting import code

LISTS = [path for method, path in ENDPOINTS if method == "GET" and "<" not in path]
TAGGED = ["/contests", "/apps", "/surveys", "/feeds", "/articles"]


@pytest.fixture
async def client(stack: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    """Of an account that has nothing yet."""
    async with await client_with(stack, uuid.uuid4().hex, "content:read", "content:write") as client:
        yield client


async def make(client: httpx.AsyncClient, where: str, **body: Any) -> str:
    path = f"{where}/{uuid.uuid4().hex}" if where == "/surveys" else where
    answer = await client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    key: str = answer.json()["key"]
    return key


async def page(client: httpx.AsyncClient, where: str, **query: Any) -> tuple[list[str], str | None]:
    answer = await client.get(where, params={name: value for name, value in query.items() if value is not None})
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert set(body) == {"data", "has_more", "next"}
    assert body["has_more"] == (body["next"] is not None)
    return [record["key"] for record in body["data"]], body["next"]


@pytest.mark.parametrize("where", TAGGED)
async def test_tags_must_all_be_there(client: httpx.AsyncClient, where: str) -> None:
    both, _, other = [await make(client, where, tags=tags) for tags in (["a", "b"], ["a"], ["c", "b", "a"])]
    assert (await page(client, where, tags=["a", "b"]))[0] == [other, both]
    assert (await page(client, where, tags="nothing"))[0] == []


@pytest.mark.parametrize("where", LISTS)
async def test_the_bounds_of_a_page_and_a_broken_token(client: httpx.AsyncClient, where: str) -> None:
    assert await page(client, where, limit=100) == ([], None)
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"next": "x"}, {"updated_since": "yesterday"}):
        assert code(await client.get(where, params=wrong)) == (422, "validation_failed")


async def test_a_page_has_twenty_unless_asked_otherwise(client: httpx.AsyncClient) -> None:
    keys = [await make(client, "/articles") for _ in range(21)]
    found, token = await page(client, "/articles")
    assert found == keys[:0:-1]
    assert await page(client, "/articles", next=token) == ([keys[0]], None)
