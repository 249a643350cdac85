"""The voting page to copy from: vote, see what is left and when it renews, take a vote back, watch the result."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from playwright.async_api import Page, expect

from libs.local_stack.supervisor import Supervisor
from services.cli.voting_page.server import serve_voting_page
from tests.support.browser_contexts import Contexts
from tests.support.soundness import SIZES, is_sound
from tests.support.voting import Api, Contest, code, hours_from_now, running

pytestmark = pytest.mark.slow


@pytest.fixture
async def address(stack: Supervisor) -> AsyncIterator[str]:
    async with serve_voting_page(stack.stack) as address:
        yield address


class Visitor:
    """Opens the voting page as a new voter each time."""

    def __init__(self, contexts: Contexts, address: str) -> None:
        self._contexts = contexts
        self._address = address

    async def open(self, path: str, size: str = "laptop") -> Page:
        page = await self._contexts.lend(SIZES[size])
        await page.goto(self._address + path)
        return page


@pytest.fixture
def visitor(address: str, contexts: Contexts) -> Visitor:
    return Visitor(contexts, address)


async def song(api: Api, **config: Any) -> Contest:
    free = {"max_participant": 1, "max_contest": 2}
    contest = await api.contest(
        0, running(free=free, **config) | {"title": "Song of the Year", "description": "Sing"}
    )
    for name in ("Aurora Vale", "Nine Rivers", "Marlow & <Finch>"):
        contest.participants.append(await api.participant(contest, title=name))
    return contest


async def test_a_voter_votes_sees_what_is_left_and_takes_a_vote_back(api: Api, visitor: Visitor) -> None:
    contest = await song(api, renew_free_vote={"cooldown": 3600})
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("h1")).to_have_text("Song of the Year")
    await expect(page.locator("#left")).to_contain_text("You have 2 votes left.")
    await page.get_by_role("button", name="Vote for Aurora Vale", exact=True).click()
    await expect(page.locator("#left")).to_have_text("You have 1 vote left.")
    await expect(page.locator("#renews")).to_contain_text("All renew in 59:")
    await expect(page.get_by_role("button", name="Vote for Aurora Vale", exact=True)).to_be_disabled()
    await expect(page.get_by_role("button", name="Vote for Nine Rivers")).to_be_enabled()
    await expect(page.locator("#participants li").first).to_contain_text("1 vote · place 1")
    await expect(page.locator("#own li")).to_contain_text("Aurora Vale")
    await page.reload()
    await expect(page.locator("#own li")).to_contain_text("counts")
    await page.get_by_role("button", name="Take back your vote for Aurora Vale").click()
    await expect(page.locator("#own li")).to_contain_text("removed by its voter")
    await expect(page.locator("#participants li").first).to_contain_text("0 votes")
    await expect(page.get_by_role("button", name="Vote for Aurora Vale", exact=True)).to_be_enabled()


async def test_the_votes_of_others_are_shown_live(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("#total")).to_have_text("0 votes in all")
    assert (await contest.vote(2, "another")).status_code == 201
    await expect(page.locator("#total")).to_have_text("1 vote in all")
    await expect(page.locator("#participants li").nth(2)).to_contain_text("Marlow & <Finch>1 vote")
    await expect(page.locator("#no-votes")).to_be_visible()


async def test_a_refusal_is_shown(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open(f"/?contest={contest.key}")
    button = page.get_by_role("button", name="Vote for Aurora Vale", exact=True)
    await expect(button).to_be_enabled()
    assert (await contest.change(end=hours_from_now(-0.01))).status_code == 200
    await expect(page.locator("#phase")).to_have_text("Closed")
    await expect(button).to_be_disabled()
    unknown = await visitor.open("/?contest=none")
    await expect(unknown.locator("#trouble")).to_contain_text("not found")


async def test_a_refused_vote_stays_shown_while_the_page_reads_on(api: Api, visitor: Visitor) -> None:
    contest = await song(api, ip_restriction_per_participant=1)
    first, second = [await visitor.open(f"/?contest={contest.key}") for _ in range(2)]
    name = "Vote for Aurora Vale"
    await first.get_by_role("button", name=name, exact=True).click()
    await expect(first.locator("#own li")).to_have_count(1)
    button = second.get_by_role("button", name=name, exact=True)
    await expect(button).to_be_enabled()
    async with second.expect_response(lambda answer: answer.url.endswith("/allowance")):
        await button.click()
    await expect(second.locator("#left")).to_contain_text("You have 2 votes left.")
    await expect(second.locator("#trouble")).to_contain_text("ip limit of 1")


async def test_without_a_contest_it_lists_those_that_run(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("/")
    await page.locator(f'#contests a[href="/?contest={contest.key}"]').click()
    await expect(page.locator("#participants li")).to_have_count(3)


async def test_a_sample_contest_can_be_made_to_try_it(visitor: Visitor) -> None:
    page = await visitor.open("/")
    await page.get_by_role("button", name="Create a sample contest").click()
    await expect(page.locator("#participants li")).to_have_count(8, timeout=30_000)
    await page.get_by_role("button", name="Vote for Juno Okafor", exact=True).click()
    await expect(page.locator("#own li")).to_contain_text("Juno Okafor")
    await expect(page.locator("#renews")).to_contain_text("All renew in 00:")


async def test_the_backend_needs_the_page_s_cookie_and_passes_on_no_key(api: Api, address: str) -> None:
    contest = await song(api)
    path = f"/contests/{contest.key}/votes"
    async with httpx.AsyncClient(base_url=address, trust_env=False, headers={"origin": address}) as client:
        assert (await client.post(path, json={"participant_key": contest.participants[0]})).status_code == 401
        page = await client.get("/")
        assert "samesite=strict" in page.headers["set-cookie"].lower()
        assert "httponly" in page.headers["set-cookie"].lower()
        assert (await client.post(path, data={"participant_key": contest.participants[0]})).status_code == 400
        first = await client.post(path, json={"participant_key": contest.participants[0], "voter_id": "another"})
        assert first.status_code == 201
        assert code(await client.post(path, json={"participant_key": contest.participants[0]})) == (
            409,
            "participant_limit_reached",
        )
        assert "tk_" not in page.text + first.text


@pytest.mark.parametrize("size", ["phone", "laptop"])
async def test_it_is_sound_at_every_size(api: Api, visitor: Visitor, size: str) -> None:
    contest = await song(api, renew_free_vote={"cooldown": 3600})
    page = await visitor.open(f"/?contest={contest.key}", size)
    await page.get_by_role("button", name="Vote for Nine Rivers").click()
    await expect(page.locator("#own li")).to_have_count(1)
    await is_sound(page, f"voting-{size}")
