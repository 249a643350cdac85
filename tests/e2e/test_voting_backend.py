"""The voting page's backend in front of the whole service: its key, and its voters' votes."""

import httpx

from libs.local_stack.supervisor import Supervisor
from services.cli.voting_page.server import KEY_NAME, serve_voting_page
from tests.support.clients.http_clients import http_client
from tests.support.clients.voting import Api
from tests.support.eventually import eventually


async def keys_of_pages(api: Api) -> list[list[str]]:
    listed = (await api.client.get("/keys", params={"limit": 100})).json()["data"]
    return [sorted(key["permissions"]) for key in listed if key["name"] == KEY_NAME]


async def test_the_page_has_a_key_of_two_permissions_while_it_is_served(api: Api, stack: Supervisor) -> None:
    """A page that was killed leaves no second one."""
    for _ in range(2):
        async with serve_voting_page(stack.stack):
            assert await keys_of_pages(api) == [["content:read", "votes:write"]]
        assert await keys_of_pages(api) == []
        left = await api.client.post("/keys", json={"name": KEY_NAME, "permissions": ["votes:write"]})
        assert left.status_code == 201


async def test_voters_of_the_page_are_none_of_the_application(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    assert (await contest.vote(0, voter="alice@example.org")).status_code == 201
    async with serve_voting_page(stack.stack) as address, http_client(base_url=address) as browser:
        browser.headers["origin"] = address
        assert (await browser.get("/")).status_code == 200
        body = {"participant_key": contest.participants[0], "vote_id": "of-the-page"}
        cast = await browser.post(f"/contests/{contest.key}/votes", json=body)
        assert cast.status_code == 201, cast.text
        own = await eventually(lambda: own_votes(browser, contest.key))
        assert [vote["vote_id"] for vote in own or []] == ["of-the-page"]
        counts = await contest.counts()
        assert (counts["count"], counts["unique_voter_count"]) == (2, 2)
        cookie = {"cookie": "voter=alice@example.org"}
        browser.cookies.clear()
        refused = await browser.get(f"/contests/{contest.key}/votes", headers=cookie)
        assert refused.status_code == 401
        for path in (f"/contests/%2e%2e/contests/{contest.key}/votes", f"/contests/{contest.key}/votes/%2e%2e"):
            assert (await browser.delete(path)).status_code in (404, 405)
    assert (await api.client.get(contest.path)).status_code == 200


async def test_visitors_from_the_network_create_no_contests(stack: Supervisor) -> None:
    """On this machine the page can create a sample contest, with its owner's key; on a network everybody could."""
    other_name = str(httpx.URL(stack.stack["base_url"]).copy_with(host="localhost"))
    for public_url, status in ((stack.stack["base_url"], 201), (other_name, 404)):
        async with serve_voting_page(stack.stack | {"public_url": public_url}) as address:
            at = httpx.URL(address).copy_with(host="127.0.0.1")
            headers = {"origin": address, "host": httpx.URL(address).netloc.decode()}
            async with http_client(base_url=at, headers=headers) as visitor:
                assert (await visitor.post("/sample")).status_code == status


async def own_votes(browser: httpx.AsyncClient, contest: str) -> list[dict[str, str]]:
    return (await browser.get(f"/contests/{contest}/votes")).json()["data"]
