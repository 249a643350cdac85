"""Walls and control desks of a show, in browsers that share nothing: what a wall shows, and what reaches it."""

from typing import Any

import pytest
from playwright.async_api import Page, expect

from libs.local_stack.supervisor import Supervisor
from tests.browser.contest_pages import lead, page_of, picture, press, recorded, wall_of
from tests.support.clients.browser_types import Issue, Visit
from tests.support.clients.voting import Api

pytestmark = pytest.mark.slow

NAMES = ["Aurora Vale", "The Copper Lanterns", "Die Gebrüder von Hohenstein-Wolfenbüttel " + "und so weiter " * 4]


async def shows_only(page: Page, title: str) -> None:
    """The wall shows the title of its contest, no dialog and nothing else."""
    await expect(page.locator("body")).to_contain_class("unknown")
    await expect(page.locator("#contest-title")).to_have_text(title)
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator("body")).to_have_text(title, use_inner_text=True)


async def test_a_wall_shows_the_title_alone_while_it_does_not_know_the_show(
    api: Api, issue: Issue, stack: Supervisor, visit: Visit
) -> None:
    contest = await api.contest()
    await lead(contest, 0, 911)
    reader = await issue("results:read")
    wall, _ = await recorded(visit, wall_of(contest), key=reader.api_key)
    await expect(wall.locator("#count")).to_have_text("911")
    await wall.route("**/show/stream", lambda route: route.abort())
    await wall.reload()
    await shows_only(wall, "Final")
    await wall.unroute("**/show/stream")
    await expect(wall.locator("body")).not_to_contain_class("unknown")
    await expect(wall.locator("#count")).to_have_text("911")
    assert (await api.client.delete(f"/keys/{reader.key_id}")).status_code == 204
    await shows_only(wall, "Final")
    await wall.reload()
    await shows_only(wall, "Final")
    await picture(wall, "wall-unknown")
    # who logs in again in this browser brings it back
    base, key = stack.stack["base_url"], stack.stack["api_key"]
    begun = await wall.context.request.post(
        f"{base}/dashboard/session", data={"api_key": key}, headers={"Origin": base}
    )
    assert begun.ok
    await expect(wall.locator("#count")).to_have_text("911")


async def test_a_wall_opens_by_a_link_without_a_session_until_the_link_is_revoked(
    api: Api, stack: Supervisor, visit: Visit
) -> None:
    contest = await api.contest()
    await lead(contest, 0, 911)
    desk = await visit(page_of(contest))
    await press(desk, "Links")
    await desk.get_by_label("Name, such as where the screen is").fill("Hall")
    await press(desk, "Create a link")
    row = desk.locator("#links li")
    await expect(row).to_contain_text("Hall")
    await desk.wait_for_function("() => document.querySelector('#links img').naturalWidth > 0")
    await picture(desk, "desk-links")
    address = await row.get_by_label("Address of the link").input_value()
    assert "tk_" not in address
    wall, traffic = await recorded(visit, address, key="")
    await expect(wall.locator("#count")).to_have_text("911")
    await press(desk, "Close", "Call to vote")
    await desk.get_by_label("Short address or number to read out").fill("vote.example")
    await desk.get_by_label("Address to vote at").fill("https://vote.example/song")
    await press(desk, "Show")
    await expect(wall.locator("#call-text")).to_have_text("vote.example")
    await wall.wait_for_function("() => document.getElementById('call-code').naturalWidth > 0")
    await press(desk, "Message")
    await desk.get_by_label("Text", exact=True).fill("Voting ends at nine")
    await press(desk, "Show")
    await expect(wall.locator("#message")).to_have_text("Voting ends at nine")
    await picture(wall, "wall-call")
    await picture(desk, "desk")
    await press(desk, "Message", "Do not show it")
    await expect(wall.locator("#message")).to_be_hidden()
    await press(desk, "Links", "Revoke")
    await expect(row).to_have_count(0)
    await shows_only(wall, "Final")
    await wall.reload()
    await shows_only(wall, "Final")
    assert stack.stack["api_key"] not in await traffic.settled()


async def test_a_desk_does_not_overwrite_what_another_has_done_meanwhile(api: Api, visit: Visit) -> None:
    contest = await api.contest()
    desk = await visit(page_of(contest))
    await expect(desk.locator("#screens-show")).to_have_text("Screens show the present counts.")

    async def is_late(route: Any) -> None:
        await (route.abort() if route.request.method == "GET" else route.continue_())

    await desk.route("**/show", is_late)
    assert (await api.client.put(f"{contest.path}/show", json={"message": "Hello"})).status_code == 200
    await desk.keyboard.press("h")
    await expect(desk.locator("#desk-error")).to_contain_text("Another desk has changed the show.")
    assert (await api.client.get(f"{contest.path}/show")).json()["state"] == "live"
    await desk.unroute("**/show")
    await desk.reload()
    await expect(desk.locator("#message-edit")).to_have_attribute("aria-pressed", "true")
    await desk.keyboard.press("h")
    await expect(desk.locator("#hold")).to_have_attribute("aria-pressed", "true")
    show = (await api.client.get(f"{contest.path}/show")).json()
    assert (show["state"], show["message"]) == ("held", "Hello")


async def test_the_desk_opens_a_wall_in_a_window_of_its_own_and_needs_a_permission(
    api: Api, issue: Issue, visit: Visit
) -> None:
    contest = await api.contest()
    desk = await visit(page_of(contest))
    async with desk.expect_popup() as opening:
        await desk.keyboard.press("f")
    wall = await opening.value
    await expect(wall.locator("#live")).to_have_text("Live")
    assert wall.url.endswith(wall_of(contest))
    reader = await issue("results:read")
    page = await visit(page_of(contest), key=reader.api_key)
    await expect(page.locator("#live")).to_have_text("Live")
    await expect(page.locator("#desk")).to_be_hidden()
    await page.keyboard.press("h")
    assert (await api.client.get(f"{contest.path}/show")).json()["state"] == "live"
