"""The description of the log, as a page for people; and the order in which the API's reference begins."""

from __future__ import annotations

import httpx

from libs.contracts.asyncapi import asyncapi_document
from libs.web.server.http_middleware import HttpMiddleware
from services.gateway.app import build
from services.gateway.pages import asyncapi_module, asyncapi_page

DOCUMENT = asyncapi_document("tally", 16, "0.1.0")


def test_the_page_shows_every_topic_with_its_events_and_their_members() -> None:
    page = asyncapi_page(DOCUMENT)
    for name, channel in DOCUMENT["channels"].items():
        assert f"<h2>{name}: <code>{channel['address']}</code></h2>" in page
    for part in ("<h3>VoteCast</h3>", "<code>voter</code> string", "<h3>RecordCreated</h3>"):
        assert part in page


async def test_a_browser_gets_the_page_and_a_program_the_document() -> None:
    front = HttpMiddleware(build([asyncapi_module("tally", 16, "0.1.0")]))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://gateway") as client:
        page = await client.get("/asyncapi", headers={"accept": "text/html,*/*;q=0.8"})
        assert page.headers["content-type"].startswith("text/html")
        assert "script" not in page.headers["content-security-policy"]
        program = await client.get("/asyncapi")
        assert program.json() == DOCUMENT
        assert {page.headers["vary"], program.headers["vary"]} == {"Accept"}
