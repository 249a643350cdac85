"""`GET /` leads to the dashboard, the documents and health."""

import re

import httpx

from libs.web.door.client_address import Proxies
from libs.web.door.rate_limits import RateLimits
from libs.web.server.http_middleware import HttpMiddleware
from libs.web.settings import HostSettings
from services.gateway.app import VERSION, build
from services.gateway.pages import LINKS, index_module


def client(limits: RateLimits | None = None) -> httpx.AsyncClient:
    front = HttpMiddleware(build([index_module("Tallykeeper", VERSION)]), limits=limits)
    return httpx.AsyncClient(transport=httpx.ASGITransport(front), base_url="http://gateway")


async def test_programs_get_the_addresses_as_json() -> None:
    async with client() as anonymous:
        answer = await anonymous.get("/")
        assert answer.json() == {"name": "Tallykeeper", "version": VERSION} | LINKS
        assert answer.headers["vary"] == "Accept"
        assert (await anonymous.post("/")).status_code == 405


async def test_browsers_get_a_page_of_the_same_links() -> None:
    async with client() as anonymous:
        answer = await anonymous.get("/", headers={"accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert answer.headers["content-type"].startswith("text/html")
        assert re.findall(r'<a href="([^"]+)"', answer.text) == list(LINKS.values())
        assert "default-src 'none'" in answer.headers["content-security-policy"]


async def test_it_is_limited_by_address_whatever_credentials_are_sent() -> None:
    limits = RateLimits(HostSettings(rate_per_address=1), Proxies())
    async with client(limits) as anonymous:
        answers = [await anonymous.get("/", headers={"authorization": f"Bearer {n}"}) for n in range(30)]
        assert 429 in {answer.status_code for answer in answers}
