"""The documentation's pages load everything from their own origin."""

import re
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from libs.web.server.http_middleware import HttpMiddleware
from services.gateway.app import build

FOREIGN = re.compile(r"(?:https?:)?//[a-z0-9.-]+", re.IGNORECASE)
NAMED = re.compile(r"(?:src|href|spec-url)=\"([^\"]+)\"")


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=HttpMiddleware(build([])))
    async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
        yield client


@pytest.mark.parametrize("path", ["/docs", "/docs/", "/redoc"])
async def test_a_page_names_no_foreign_host_and_all_that_it_names_is_there(
    client: httpx.AsyncClient, path: str
) -> None:
    page = await client.get(path)
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert not FOREIGN.findall(page.text)
    named = NAMED.findall(page.text)
    assert len(named) >= 2
    for address in named:
        assert urlsplit(address).path.startswith("/")
        found = await client.get(address)
        assert (found.status_code, len(found.content) > 100) == (200, True), address


async def test_pages_run_no_script_of_their_own_and_load_nothing_from_elsewhere(client: httpx.AsyncClient) -> None:
    for path in ("/docs", "/redoc"):
        page = await client.get(path)
        assert not re.search(r"<script(?![^>]*\ssrc=)", page.text)
        policy: dict[str, Any] = {
            name: sources
            for name, *sources in (part.split() for part in page.headers["content-security-policy"].split(";"))
        }
        assert policy["default-src"] == ["'none'"]
        assert policy["script-src"] == policy["connect-src"] == ["'self'"]
        assert not any(FOREIGN.match(source) for sources in policy.values() for source in sources)


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
async def test_no_script_asks_for_pictures_from_elsewhere(client: httpx.AsyncClient, path: str) -> None:
    for address in NAMED.findall((await client.get(path)).text):
        assert not re.search(r"src: ?[\"'](?:https?:)?//", (await client.get(address)).text), address
