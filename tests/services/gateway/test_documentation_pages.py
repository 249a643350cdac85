"""The gateway's pages: documentation, which loads everything from its own origin, and the index."""

import re
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest

from libs.contracts.asyncapi import asyncapi_document
from libs.web.door.client_address import Proxies
from libs.web.door.rate_limits import RateLimits
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.settings import HostSettings
from services.gateway.app import VERSION, build
from services.gateway.pages import LINKS, asyncapi_module, asyncapi_page, index_module

FOREIGN = re.compile(r"(?:https?:)?//[a-z0-9.-]+", re.IGNORECASE)
NAMED = re.compile(r"(?:src|href|spec-url)=\"([^\"]+)\"")
LOG = "tally", 16, "0.1.0"
DOCUMENT = asyncapi_document(*LOG)
BROWSER = {"accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


def open_client(limits: RateLimits | None = None) -> httpx.AsyncClient:
    app = build([index_module("Tallykeeper", VERSION), asyncapi_module(*LOG)])
    transport = httpx.ASGITransport(HttpMiddleware(app, limits=limits))
    return httpx.AsyncClient(transport=transport, base_url="http://here")


@pytest.fixture
def client() -> httpx.AsyncClient:
    return open_client()


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
        assert not re.search(r"src: ?[\"'](?:https?:)?//", found.text), f"{address} asks for foreign pictures"


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


async def test_the_log_is_described_as_a_page_to_browsers_and_as_a_document_to_programs(
    client: httpx.AsyncClient,
) -> None:
    page, program = await client.get("/asyncapi", headers=BROWSER), await client.get("/asyncapi")
    assert page.headers["content-type"].startswith("text/html")
    assert "script" not in page.headers["content-security-policy"]
    assert page.text == asyncapi_page(DOCUMENT)
    for name, channel in DOCUMENT["channels"].items():
        assert f"<h2>{name}: <code>{channel['address']}</code></h2>" in page.text
    for part in ("<h3>VoteCast</h3>", "<code>voter</code> string", "<h3>RecordCreated</h3>"):
        assert part in page.text
    assert program.json() == DOCUMENT
    assert {page.headers["vary"], program.headers["vary"]} == {"Accept"}


async def test_the_index_has_the_same_links_for_browsers_and_programs(client: httpx.AsyncClient) -> None:
    page, program = await client.get("/", headers=BROWSER), await client.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert re.findall(r'<a href="([^"]+)"', page.text) == list(LINKS.values())
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert program.json() == {"name": "Tallykeeper", "version": VERSION} | LINKS
    assert program.headers["vary"] == "Accept"
    assert (await client.post("/")).status_code == 405


async def test_the_index_is_limited_by_address_whatever_credentials_are_sent() -> None:
    client = open_client(RateLimits(HostSettings(rate_per_address=1), Proxies()))
    answers = [await client.get("/", headers={"authorization": f"Bearer {n}"}) for n in range(30)]
    assert 429 in {answer.status_code for answer in answers}
