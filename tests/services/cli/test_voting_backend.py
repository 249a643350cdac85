"""The voting page's backend: its voters are its own, and nothing but their votes passes through it.

The API behind it is a stand-in that records what it is sent: only the passing on is the subject.
"""

import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import Request

from libs.client import AsyncClient
from libs.web.door.client_address import Proxies, parse_hop, parse_networks
from services.cli.voting_page.backend import MOST_BYTES, address_of, voter_secret_from, voting_app

pytestmark = pytest.mark.pure
ORIGIN: Final = "https://vote.example"
SECRET: Final = "of the backend"
VOTE: Final = {"participant_key": "p", "vote_id": "v"}


class Service:
    """Stands for the API: answers everything, and keeps the requests."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []
        self.data: list[dict[str, Any]] = []
        self.status = 200
        self.problem: dict[str, Any] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if self.status != 200:
            return httpx.Response(self.status, json=self.problem, headers={"Retry-After": "7"})
        vote = json.loads(request.content)["vote_id"] if request.method == "POST" else None
        return httpx.Response(200, json={"data": self.data, "vote_id": vote, "receipt": "r"})

    @property
    def body(self) -> dict[str, Any]:
        """Return that of the last request."""
        return json.loads(self.requests[-1].content)


@pytest.fixture
def service() -> Service:
    return Service()


def page_at(service: Service, origin: str = ORIGIN, page: str | None = None, **options: Any) -> httpx.AsyncClient:
    """A browser at `page`, by default the backend's own, without cookies."""
    api = AsyncClient("http://api.example", "tk", patience_s=0, transport=httpx.MockTransport(service))
    app = voting_app(api, origin, SECRET, **{"public_api": "http://api.example"} | options)
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    return httpx.AsyncClient(base_url=origin, transport=transport, headers={"origin": page or origin})


@pytest.fixture
async def browser(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """One that has opened the page."""
    async with page_at(service) as browser:
        assert (await browser.get("/")).status_code == 200
        yield browser


def voter_of(request: httpx.Request) -> str:
    return str(request.url.params.get("voter_id") or json.loads(request.content)["voter_id"])


async def test_a_voter_has_the_same_id_in_all_requests_and_a_space_of_its_own(
    service: Service, browser: httpx.AsyncClient
) -> None:
    assert (await browser.post("/contests/c/votes", json=VOTE)).status_code == 201
    assert (await browser.get("/contests/c/votes")).status_code == 200
    assert (await browser.get("/contests/c/allowance")).status_code == 200
    assert (await browser.delete("/contests/c/votes/v")).status_code == 204
    voters = {voter_of(request) for request in service.requests}
    assert len(voters) == 1
    assert voters.pop().startswith("page:")
    async with page_at(service) as other:
        await other.get("/")
        await other.get("/contests/c/votes")
    assert len({voter_of(request) for request in service.requests}) == 2


@pytest.mark.parametrize("cookie", ["alice@example.org", "page:alice@example.org", "page:a.signature", "", "ü"])
async def test_a_cookie_that_the_backend_did_not_sign_is_nobody(service: Service, cookie: str) -> None:
    async with page_at(service) as browser:
        for name in ("voter", "__Host-voter"):
            headers = [(b"cookie", f"{name}={cookie}".encode())]
            for answer in (
                await browser.get("/contests/c/votes", headers=headers),
                await browser.post("/contests/c/votes", json=VOTE, headers=headers),
                await browser.delete("/contests/c/votes/v", headers=headers),
            ):
                assert answer.status_code == 401
    assert not service.requests


async def test_over_https_the_cookie_belongs_to_this_host_alone(service: Service) -> None:
    async with page_at(service) as secure, page_at(service, "http://127.0.0.1:8081") as plain:
        set_by = (await secure.get("/")).headers["set-cookie"]
        assert set_by.startswith("__Host-voter=")
        assert {"secure", "httponly", "path=/", "samesite=strict"} <= {
            part.strip().lower() for part in set_by.split(";")
        }
        on_loopback = (await plain.get("/")).headers["set-cookie"]
        assert on_loopback.startswith("voter=")
        assert "secure" not in on_loopback.lower()
        assert (await plain.get("/contests/c/votes")).status_code == 200
    async with page_at(service) as other:
        value = on_loopback.partition("=")[2].partition(";")[0]
        answer = await other.get("/contests/c/votes", headers={"cookie": f"voter={value}"})
        assert answer.status_code == 401


@pytest.mark.parametrize(
    "page", ["https://evil.example", "null", "http://vote.example", "https://vote.example:444"]
)
async def test_other_pages_write_nothing(service: Service, browser: httpx.AsyncClient, page: str) -> None:
    headers = {"origin": page}
    assert (await browser.post("/contests/c/votes", json=VOTE, headers=headers)).status_code == 403
    assert (await browser.delete("/contests/c/votes/v", headers=headers)).status_code == 403
    assert (await browser.post("/sample", headers=headers)).status_code == 403
    del browser.headers["origin"]
    assert (await browser.post("/contests/c/votes", json=VOTE)).status_code == 403
    assert not service.requests


async def test_another_host_name_is_not_answered(service: Service, browser: httpx.AsyncClient) -> None:
    """As of a page whose name leads to this address (DNS rebinding)."""
    for path in ("/", "/contests/c/votes", "/contests", "/page/vote.js"):
        assert (await browser.get(path, headers={"host": "evil.example"})).status_code == 400
    assert not service.requests


@pytest.mark.parametrize("segment", ["..", "%2e%2e", ".", "%2E", "..%2F..%2Foperations", "a%2Fb", "a%5Cb", "a%00"])
async def test_no_path_leads_to_another_one(service: Service, browser: httpx.AsyncClient, segment: str) -> None:
    for method, path in (
        ("DELETE", f"/contests/{segment}/votes/v"),
        ("DELETE", f"/contests/c/votes/{segment}"),
        ("GET", f"/contests/{segment}/votes"),
        ("GET", f"/contests/{segment}/allowance"),
        ("POST", f"/contests/{segment}/votes"),
    ):
        request = browser.build_request(method, "/", json=VOTE if method == "POST" else None)
        request.url = request.url.copy_with(raw_path=path.encode())
        assert (await browser.send(request)).status_code in (404, 405), path
    assert not service.requests


async def test_a_body_is_a_small_json_object_or_refused(service: Service, browser: httpx.AsyncClient) -> None:
    json_type = {"content-type": "application/json"}
    for content in (b"", b"{", b"[]", b"1", b"\xff", b"[" * 9_000, b'{"a": NaN'):
        refused = await browser.post("/contests/c/votes", content=content, headers=json_type)
        assert (refused.status_code, "detail" in refused.json()) == (400, True), content[:20]
    form = await browser.post("/contests/c/votes", data={"participant_key": "p"})
    assert form.status_code == 400
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while sent < 100 * MOST_BYTES:
            sent += 1024
            yield b" " * 1024

    large = await browser.post("/contests/c/votes", content=endless(), headers=json_type)
    assert large.status_code == 413
    assert not service.requests


async def test_votes_ratings_and_ballots_have_the_voters_address_and_no_other_member(
    service: Service, browser: httpx.AsyncClient
) -> None:
    given: dict[str, Any] = VOTE | {"voter_id": "alice", "source": "c-paid", "count": 9, "ip": "192.0.2.1"}
    headers = {"x-forwarded-for": "192.0.2.1"}
    assert (await browser.post("/contests/c/votes", json=given, headers=headers)).status_code == 201
    assert set(service.body) == {"participant_key", "vote_id", "platform", "ip", "voter_id"}
    assert service.body["ip"] == "127.0.0.1"
    for members in ({"participant_key": "p", "rating": {"value": 4}}, {"positions": {"1": "p"}}):
        assert (await browser.post("/contests/c/votes", json=members)).status_code == 201
        assert service.body.items() >= members.items()


@pytest.mark.parametrize(
    ("forwarded", "address"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("203.0.113.9, 192.0.2.1", "192.0.2.1"),
        ("192.0.2.1, 127.0.0.2", "192.0.2.1"),
        ("2001:db8::1", "2001:db8::1"),
        ("198.51.100.8:51820", "198.51.100.8"),
        ("garbage", None),
        ("", None),
    ],
)
async def test_behind_a_trusted_proxy_the_address_is_the_last_one_that_it_did_not_add(
    service: Service, forwarded: str, address: str | None
) -> None:
    async with page_at(service, trusted_proxies="127.0.0.0/8") as browser:
        await browser.get("/")
        headers = {"x-forwarded-for": forwarded}
        assert (await browser.post("/contests/c/votes", json=VOTE, headers=headers)).status_code == 201
    assert service.body["ip"] == address


PIECES: Final = [
    "127.0.0.1",
    "198.51.100.8",
    "2001:db8::1",
    "::ffff:127.0.0.2",
    "fe80::1%eth0",
    ":443",
    ":",
    "[",
    "]",
]
HOPS: Final = st.lists(st.sampled_from([*PIECES, "[2001:db8::1]", "x", " ", "\xb2"]), max_size=3).map("".join)


@given(st.lists(HOPS, max_size=3).map(",".join), st.sampled_from(["127.0.0.1", "198.51.100.9", "a socket"]))
@example("127.0.0.1:80,[2001:db8::1]:443", "127.0.0.1")
def test_it_finds_the_address_that_the_service_itself_would_find(forwarded: str, peer: str) -> None:
    """It imports nothing of the service, so that it can be copied."""
    headers = [(b"x-forwarded-for", forwarded.encode("latin-1"))]
    asked = Request({"type": "http", "client": (peer, 1), "headers": headers})
    proxies = Proxies("127.0.0.0/8")
    expected = proxies.end_user(asked.scope) if proxies.trusts((peer, 1)) else parse_hop(peer)
    assert address_of(asked, parse_networks("127.0.0.0/8")) == (None if expected is None else str(expected))


async def test_browsers_are_given_an_address_of_the_api_of_their_own(service: Service) -> None:
    async with page_at(service, public_api="https://api.example.org") as browser:
        page = await browser.get("/")
    assert 'data-api="https://api.example.org"' in page.text
    assert "connect-src 'self' https://api.example.org;" in page.headers["content-security-policy"]
    assert "http://api.example" not in page.text


async def test_strangers_see_key_and_title_of_listed_contests_only(
    service: Service, browser: httpx.AsyncClient
) -> None:
    def contest(key: str, visibility: str) -> dict[str, Any]:
        rules = {"contest_visibility": visibility}
        return {"key": key, "title": key.upper(), "custom_data": {"budget": 1}, "contest_config": rules}

    service.data = [contest("a", "listed"), contest("rehearsal", "not_listed"), contest("b", "listed")]
    answer = await browser.get("/contests")
    assert answer.json() == {"data": [{"key": "a", "title": "A"}, {"key": "b", "title": "B"}]}


async def test_refusals_and_outages_are_passed_on_and_no_vote_is_kept(service: Service) -> None:
    """The page has stored its vote, and sends it again with the same id."""
    api = AsyncClient("http://api.example", "tk", patience_s=0, transport=httpx.MockTransport(service))
    transport = httpx.ASGITransport(voting_app(api, ORIGIN, SECRET, "http://api.example"))
    async with httpx.AsyncClient(base_url=ORIGIN, transport=transport, headers={"origin": ORIGIN}) as browser:
        await browser.get("/")
        for status, code in ((409, "participant_limit_reached"), (503, "overloaded"), (401, "unauthorized")):
            service.status, service.problem = status, {"code": code, "detail": "No.", "limit": 1}
            for answer in (
                await browser.post("/contests/c/votes", json=VOTE),
                await browser.get("/contests/c/votes"),
                await browser.delete("/contests/c/votes/v"),
            ):
                assert (answer.status_code, answer.json()) == (status, service.problem)
                assert answer.headers["retry-after"] == "7"
    assert api.store.all() == []


async def test_the_client_s_script_is_served(browser: httpx.AsyncClient) -> None:
    script = await browser.get("/page/tallykeeper.js")
    assert script.headers["content-type"].startswith("text/javascript")
    assert "export class Client" in script.text


async def test_the_page_to_copy_creates_no_contests(service: Service, browser: httpx.AsyncClient) -> None:
    assert '<div hidden><button type="button" id="sample">' in (await browser.get("/")).text
    assert (await browser.post("/sample")).status_code == 404
    assert not service.requests


def test_voters_are_not_signed_with_the_api_key_itself() -> None:
    assert voter_secret_from("tk_a") not in ("tk_a", voter_secret_from("tk_b"))
    assert voter_secret_from("tk_a") == voter_secret_from("tk_a")
