"""The gateway is killed in each state of a show: what walls, desk, presenter and phone show meanwhile, whether
they were open, are loaded again or opened then; afterwards each is right by itself."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any, Final

import pytest
from playwright.async_api import Page, expect

from libs.local_stack.supervisor import Supervisor
from services.cli.voting_page.server import serve_voting_page
from tests.browser.contest_pages import HALL, lead, page_of, picture, wall_of
from tests.support.clients.browser_contexts import Contexts
from tests.support.clients.browser_types import Visit
from tests.support.clients.network_traffic import Traffic, contains
from tests.support.clients.soundness import SIZES
from tests.support.clients.voting import Api, Contest, running
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ACTS: Final = ("Aurora Vale", "Żubry z Łodzi", "Åse Lind")
VOTES: Final = (70_051, 60_037, 50_021)
LATE: Final = 10_007
"""The first act's votes that come while the walls are held."""
STATES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("hidden_until_end", {"state": "live"}),
    ("hidden_until_end", {"state": "reveal", "revealed": 1}),
    ("shown", {"state": "live"}),
    ("shown", {"state": "held"}),
    ("shown", {"state": "result"}),
)
"""Who may see the counts, and the state of the show."""


@pytest.fixture
async def voting_page(stack: Supervisor) -> AsyncIterator[str]:
    async with serve_voting_page(stack.stack) as address:
        yield address


async def opened(beside: Page, path: str) -> Page:
    """Open a page in the same browser."""
    page = await beside.context.new_page()
    await page.set_viewport_size({"width": HALL[0], "height": HALL[1]})
    await page.emulate_media(reduced_motion="reduce")
    await page.goto(path)
    return page


async def seen(wall: Page) -> tuple[str, ...]:
    """Return what an audience reads."""
    parts = ("#contest-title", "#phase", "#finality", "#held-mark", "#figures", "#ranking")
    shown = [wall.locator(part) for part in parts]
    return tuple([await part.inner_text() if await part.is_visible() else "" for part in shown])


async def shows(wall: Page, expected: tuple[str, ...]) -> bool:
    assert await seen(wall) == expected
    return True


async def direct(contest: Contest, wall: Page, **show: Any) -> None:
    assert (await contest.client.put(f"{contest.path}/show", json=show)).status_code == 200
    if show["state"] in {"live", "result"}:
        await expect(wall.locator("#held-mark")).to_be_hidden()
        await expect(wall.locator("#ranking .covered")).to_have_count(0)
    elif show["state"] == "reveal":
        await expect(wall.locator("#ranking .covered")).to_have_count(2)
    else:
        await expect(wall.locator("#held-mark")).to_be_visible()


async def test_every_page_survives_an_outage_in_each_state_of_the_show(
    api: Api, stack: Supervisor, voting_page: str, visit: Visit, contexts: Contexts
) -> None:
    contest = await api.contest(0, running(vote_visibility="hidden_until_end") | {"title": "Grand Final"})
    for number, title in enumerate(ACTS):
        contest.participants.append(await api.participant(contest, title=title))
        await lead(contest, number, VOTES[number])
    address = f"{wall_of(contest)}?hide=rate-countdown"
    wall = await visit("about:blank", size=HALL, keeps_pages=True)
    traffic = await Traffic.record(wall)
    await wall.goto(address)
    again = await opened(wall, address)
    desk = await visit(page_of(contest), keeps_pages=True)  # one browser has six connections
    desk_again = await opened(desk, page_of(contest))
    phone = await contexts.lend(SIZES["phone"])
    await phone.goto(f"{voting_page}/?contest={contest.key}")
    kept = "async () => (await (await caches.open('pages')).keys()).length > 25"
    for page in (wall, desk):
        await page.wait_for_function(kept)
    total = sum(VOTES)
    for visibility, show in STATES:
        await contest.change(vote_visibility=visibility)
        name = f"outage-{visibility}-{show['state']}"
        await direct(contest, wall, **show)
        await expect(wall.locator("#ranking .name").first).to_be_visible()
        if visibility == "shown":
            await expect(wall.locator("#count")).to_have_text(f"{total:,}")
        if show["state"] == "held":  # what comes later is not shown, whatever happens
            await lead(contest, 0, LATE)
            total += LATE
            await expect(desk.locator("#count")).to_have_text(f"{total:,}")
        await expect(desk.locator("#live")).to_have_text("Live")
        before, says = await seen(wall), await desk.locator("#screens-show").inner_text()

        await stack.kill("gateway", restart=False)
        await expect(wall.locator("#live")).to_have_attribute("title", "Reconnecting …")
        await again.reload()
        await desk_again.reload()
        new = [await opened(wall, address), await opened(desk, f"{page_of(contest)}?view=presenter")]
        for without in (again, new[0]):
            await expect(without.locator("#contest-title")).to_have_text("Grand Final")
            await expect(without.locator("body")).to_have_text("Grand Final", use_inner_text=True)
        for without in (desk_again, new[1]):
            await expect(without.locator("#away")).to_be_visible()
        await expect(desk.locator("#live")).to_have_text("Reconnecting …")
        assert await seen(wall) == before
        await picture(wall, f"{name}-wall")
        await picture(again, f"{name}-wall-again")
        await picture(desk_again, f"{name}-desk-again")

        await stack.restart("gateway")
        for page in (wall, again, new[0]):
            await expect(page.locator("body")).not_to_contain_class("unknown")
            await expect(page.locator("#live")).to_have_attribute("title", "")
            await eventually(partial(shows, page, before))
        for page in (desk, desk_again, new[1]):
            await expect(page.locator("#screens-show")).to_have_text(says)
        await expect(phone.locator("#phase")).to_have_text("Open")
        for page in new:
            await page.close()
        secret: tuple[int, ...] = ()
        if visibility != "shown":
            secret = (*VOTES[:2], total)
        elif show["state"] == "held":
            secret = (VOTES[0] + LATE, total)
        received = await traffic.settled()
        assert not [votes for votes in secret if contains(received, votes)]
