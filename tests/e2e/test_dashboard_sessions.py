"""Log-in of browsers: the cookie has the permissions of its API key, while that is valid."""

import time
import webbrowser
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from hashlib import sha256
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from itsdangerous import TimestampSigner

from libs.catalogue.api_keys import IssuedKey
from libs.local_stack.supervisor import Supervisor
from libs.storage.object_store import open_store
from libs.storage.secret_rings import SecretRing
from libs.web.door.sessions import COOKIE, SECURE_COOKIE, SESSION_S, TICKET_S, Sessions
from tests.support.clients.commands import run, tally_json
from tests.support.clients.http_clients import http_client
from tests.support.clients.positions import HeldSecrets
from tests.support.clients.stack_keys import new_key
from tests.support.clients.voting import Api
from tests.support.eventually import eventually

SESSION = "/dashboard/session"
Issue = Callable[..., Awaitable[IssuedKey]]


@pytest.fixture
def issue(stack: Supervisor) -> Issue:
    return partial(new_key, stack)


@pytest.fixture
async def browser(stack: Supervisor) -> AsyncIterator[httpx.AsyncClient]:
    """Without a key; it keeps its cookies, and names the origin of its page."""
    base = stack.stack["base_url"]
    async with http_client(base_url=base, headers={"origin": base}, timeout=30) as client:
        yield client


@pytest.fixture
async def signing(stack: Supervisor) -> SecretRing:
    """The secret that the stack's sessions are signed with."""
    return SecretRing(open_store(stack.stack["storage_url"]), "sessions")


async def log_in(browser: httpx.AsyncClient, key: IssuedKey) -> httpx.Response:
    return await browser.post(SESSION, json={"api_key": key.api_key})


def signed(secret: bytes, salt: bytes, text: str, seconds_ago: float) -> str:
    """As the service signed it then."""

    class Signer(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(time.time() - seconds_ago)

    return Signer(secret, salt=salt, digest_method=sha256).sign(text).decode()


@pytest.mark.secured
async def test_a_session_reads_what_its_key_reads(api: Api, browser: httpx.AsyncClient, issue: Issue) -> None:
    contest = await api.contest()
    key = await issue("results:read", "content:read")
    assert (await browser.get(f"{contest.path}/vote_updates")).status_code == 401
    answer = await log_in(browser, key)
    assert (answer.status_code, answer.json()["key_id"]) == (200, key.key_id)
    assert key.api_key not in answer.headers["set-cookie"]
    for path in (SESSION, "/contests", f"{contest.path}/vote_updates", f"{contest.path}/participants"):
        assert (await browser.get(path)).status_code == 200, path
        assert (await browser.head(path)).status_code == 200, path
    refused = await browser.post(f"{contest.path}/votes", json={"participant_key": "p", "voter_id": "v"})
    assert (refused.status_code, refused.json()["permission"]) == (403, "votes:write")
    # who may only edit contests logs in to the studio
    assert (await log_in(browser, await issue("content:read", "content:write"))).status_code == 200
    assert (await browser.get(contest.path)).status_code == 200
    assert (await browser.get(f"{contest.path}/vote_updates")).status_code == 403


async def test_the_cookie_is_out_of_reach_of_scripts_and_other_sites(
    browser: httpx.AsyncClient, issue: Issue
) -> None:
    key = await issue("results:read")
    plain = (await log_in(browser, key)).headers["set-cookie"]
    attributes = {part.strip().lower() for part in plain.split(";")[1:]}
    assert {"httponly", "samesite=strict", "path=/", f"max-age={SESSION_S}"} <= attributes
    assert "secure" not in attributes
    over_tls = {"origin": f"https://{browser.base_url.netloc.decode()}"}
    answer = await browser.post(SESSION, json={"api_key": key.api_key}, headers=over_tls)
    assert answer.headers["set-cookie"].startswith(f"{SECURE_COOKIE}=")
    assert "; Secure" in answer.headers["set-cookie"]
    assert "domain" not in answer.headers["set-cookie"].lower()


async def test_a_key_without_a_page_and_an_unknown_one_open_none(browser: httpx.AsyncClient, issue: Issue) -> None:
    other = await log_in(browser, await issue("votes:write"))
    assert (other.status_code, other.json()["permission"]) == (403, "results:read")
    unknown = await browser.post(SESSION, json={"api_key": f"tk_{'0' * 16}_{'x' * 43}"})
    assert (unknown.status_code, unknown.json()["code"]) == (401, "unauthorized")
    for body in ({}, {"api_key": "a", "ticket": "b"}, {"api_key": 7}, {"password": "x"}):
        assert (await browser.post(SESSION, json=body)).status_code == 422, body
    assert not browser.cookies


async def test_writing_wants_the_origin_of_the_page(
    api: Api, browser: httpx.AsyncClient, issue: Issue, stack: Supervisor
) -> None:
    contest = await api.contest()
    await log_in(browser, await issue())
    vote = {"participant_key": contest.participants[0], "voter_id": "v"}
    foreign = ("https://evil.example", "null", "http://127.0.0.1:1", stack.stack["base_url"] + ".evil.example")
    for origin in foreign:
        refused = await browser.post(f"{contest.path}/votes", json=vote, headers={"origin": origin})
        assert (refused.status_code, "Origin" in refused.json()["detail"]) == (401, True), origin
    async with http_client(base_url=stack.stack["base_url"], cookies=browser.cookies) as without:
        assert (await without.post(f"{contest.path}/votes", json=vote)).status_code == 401
        assert (await without.delete(SESSION)).status_code == 401
        assert (await without.get("/contests")).status_code == 200
    assert (await browser.post(f"{contest.path}/votes", json=vote)).status_code == 201
    own_key = {"api_key": stack.stack["api_key"]}
    assert (await browser.post(SESSION, json=own_key, headers={"origin": foreign[0]})).status_code == 401


async def test_a_forged_or_expired_cookie_is_no_session(
    browser: httpx.AsyncClient, issue: Issue, signing: SecretRing
) -> None:
    key = await issue("results:read", "content:read")
    sessions = Sessions(signing)
    mine = await sessions.issue(key.key_id)
    (secret,) = await signing()
    fresh, late = (signed(secret, b"session", key.key_id, SESSION_S + late_s) for late_s in (-60, 60))

    others = Sessions(HeldSecrets(b"x" * 32))
    for value, status in (
        (mine, 200),
        (fresh, 200),
        (late, 401),
        (await others.issue(key.key_id), 401),
        (mine[:-3], 401),
        (await sessions.issue_ticket(key.key_id), 401),
        (key.key_id, 401),
        (await sessions.issue("0" * 16), 401),
    ):
        browser.cookies.clear()
        answer = await browser.get("/contests", headers={"cookie": f"a=b; {COOKIE}={value}"})
        assert answer.status_code == status, (value, answer.text)


async def test_a_cookie_planted_beside_the_session_speaks_for_nobody(
    browser: httpx.AsyncClient, issue: Issue, signing: SecretRing
) -> None:
    """As a neighbouring host or a page over plain HTTP can set one for the whole site."""
    own, planted = await issue("results:read"), await issue("results:read")
    sessions = Sessions(signing)
    mine, theirs = await sessions.issue(own.key_id), await sessions.issue(planted.key_id)
    for cookies, key_id in (
        (f"{COOKIE}={mine}; {COOKIE}={theirs}", None),
        (f"{COOKIE}={theirs}; {COOKIE}={mine}", None),
        (f"{SECURE_COOKIE}={mine}; {COOKIE}={theirs}", own.key_id),
        (f"{COOKIE}={theirs}; {SECURE_COOKIE}={mine}", own.key_id),
        (f"{COOKIE}={theirs}; {SECURE_COOKIE}=forged", None),
    ):
        answer = await browser.get(SESSION, headers={"cookie": cookies})
        assert (answer.status_code, answer.json().get("key_id")) == (401 if key_id is None else 200, key_id), (
            cookies
        )


async def test_a_session_makes_no_ticket_and_so_no_later_session(browser: httpx.AsyncClient, issue: Issue) -> None:
    key = await issue("results:read")
    await log_in(browser, key)
    refused = await browser.post("/dashboard/tickets")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    made = await browser.post("/dashboard/tickets", headers={"authorization": f"Bearer {key.api_key}"})
    assert made.status_code == 201


@pytest.mark.secured
async def test_revoking_the_key_ends_its_sessions(api: Api, browser: httpx.AsyncClient, issue: Issue) -> None:
    key = await issue("results:read", "content:read")
    await log_in(browser, key)
    assert (await browser.get("/contests")).status_code == 200
    assert (await api.client.delete(f"/keys/{key.key_id}")).status_code == 204

    async def refused() -> bool:
        answers = [await browser.get(path) for path in ("/contests", SESSION)]
        return all(answer.status_code == 401 and "revoked" in answer.text for answer in answers)

    assert await eventually(refused)


async def test_logging_out_takes_the_cookie_away(browser: httpx.AsyncClient, issue: Issue) -> None:
    await log_in(browser, await issue("results:read"))
    assert browser.cookies
    assert (await browser.delete(SESSION)).status_code == 204
    assert not browser.cookies
    assert (await browser.get(SESSION)).status_code == 401
    assert (await browser.delete(SESSION)).status_code == 204


@pytest.mark.secured
async def test_a_ticket_opens_one_session_within_a_minute(
    browser: httpx.AsyncClient, api: Api, stack: Supervisor, signing: SecretRing
) -> None:
    made = await api.client.post("/dashboard/tickets")
    assert made.status_code == 201
    ticket = {"ticket": made.json()["ticket"]}
    opened = await browser.post(SESSION, json=ticket)
    assert (opened.status_code, opened.json()["account"]) == (200, stack.stack["account"])
    again = await browser.post(SESSION, json=ticket)
    assert (again.status_code, "used" in again.json()["detail"]) == (401, True)
    (secret,), key_id = await signing(), opened.json()["key_id"]
    fresh, late = (signed(secret, b"ticket", f"{key_id}~{age_s}", age_s) for age_s in (10, TICKET_S + 10))
    sessions = Sessions(signing)
    session = await sessions.issue(key_id)
    for given, status in ((fresh, 200), (late, 401), (session, 401), ("garbage", 401)):
        assert (await browser.post(SESSION, json={"ticket": given})).status_code == status, given


async def test_the_test_environment_and_the_legacy_generation_know_no_sessions(
    browser: httpx.AsyncClient, issue: Issue, stack: Supervisor
) -> None:
    await log_in(browser, await issue())
    for base in ("/legacy", "/legacy-test"):
        assert (await browser.get(f"{base}/brands/{stack.stack['account']}/contests")).status_code == 401


async def test_a_session_says_when_it_ends_and_draws_codes_of_web_addresses_only(
    browser: httpx.AsyncClient, issue: Issue
) -> None:
    code = "/dashboard/code.svg"
    assert (await browser.get("/dashboard/brand")).status_code == 401
    assert (await browser.get(code, params={"text": "https://vote.example"})).status_code == 401
    logged_in = await log_in(browser, await issue("results:read"))
    ends = datetime.fromisoformat(logged_in.json()["expires"])
    assert timedelta(0) < ends - datetime.now(UTC) <= timedelta(seconds=SESSION_S)
    again = datetime.fromisoformat((await browser.get(SESSION)).json()["expires"])
    assert abs(again - ends) <= timedelta(seconds=2)
    drawn = await browser.get(code, params={"text": "https://vote.example"})
    assert drawn.headers["content-type"].startswith("image/svg+xml")
    assert b"xmlns" in drawn.content
    for text in ("javascript:alert(1)", "", "https://" + 300 * "x"):
        assert (await browser.get(code, params={"text": text})).status_code == 422


async def test_the_command_opens_an_address_that_logs_in_once(
    browser: httpx.AsyncClient, stack: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setenv("DISPLAY", ":7")
    address = (await tally_json(stack, "dashboard", "c/1"))["dashboard_url"]
    assert opened == [address]
    found = urlsplit(address)
    assert found.path == "/dashboard/contests/c%2F1"
    assert stack.stack["api_key"] not in address
    ticket = found.fragment.removeprefix("ticket=")
    for status in (200, 401):
        assert (await browser.post(SESSION, json={"ticket": ticket})).status_code == status


async def test_the_command_says_the_way_out_without_a_stack(tmp_path: Path) -> None:
    done = await run("dashboard", "--data-dir", tmp_path, "--no-browser")
    assert (done.exit_code, done.stdout) == (3, "")
    assert "tally up" in done.stderr
