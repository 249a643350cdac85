"""Log-in, the list of contests, and the common frame of all pages, in a browser."""

import re
import uuid
from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Locator, Page, Route, expect

from libs.catalogue.api_keys import find_key, revoke_key
from libs.local_stack.supervisor import Supervisor
from tests.support.builders.catalogue import Catalogue
from tests.support.clients.browser_types import Issue, Visit
from tests.support.clients.voting import Api, hours_from_now, running
from tests.support.eventually import eventually


async def test_a_user_who_is_not_logged_in_is_asked_for_a_key(
    api: Api, visit: Visit, issue: Issue, stack: Supervisor
) -> None:
    contest = await api.contest(body=running() | {"title": "Spring Final"})
    await contest.vote()
    page = await visit("/dashboard", key="")
    dialog = page.get_by_role("dialog", name="Log in")
    await expect(dialog.get_by_label("API key")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(dialog).to_be_visible()
    await dialog.get_by_label("API key").fill((await issue("votes:write")).api_key)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("alert")).to_contain_text("results:read")
    await dialog.get_by_label("API key").fill(stack.stack["api_key"])
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()
    listed = page.locator("#contests li").filter(has_text="Spring Final").first
    await expect(listed).to_contain_text("Running")
    await expect(listed).to_contain_text("1 vote")
    await listed.get_by_role("link", name="Spring Final", exact=True).click()
    await expect(page.locator("h1")).to_have_text("Spring Final")
    await expect(page.locator("#count")).to_have_text("1")
    await page.get_by_role("button", name="Log out").click()
    await expect(dialog).to_be_visible()
    assert not await page.context.cookies()


async def test_a_ticket_in_the_address_logs_in_once_and_leaves_no_trace(api: Api, visit: Visit) -> None:
    contest = await api.contest()
    ticket = (await api.client.post("/dashboard/tickets")).json()["ticket"]
    address = f"/dashboard{contest.path}#ticket={ticket}"
    page = await visit(address, key="")
    await expect(page.locator("#live")).to_have_text("Live")
    assert ticket not in page.url
    assert await page.evaluate("history.length") == 2
    again = await visit(address, key="")
    await expect(again.get_by_role("dialog")).to_be_visible()
    await expect(again.locator("#log-in-error")).to_contain_text("has been used")


@pytest.mark.parametrize(
    ("path", "permissions", "note", "missing", "hidden"),
    [
        ("", ["results:read"], "#contests-note", "content:read", "#contests li"),
        ("/operations", ["results:read"], "role=alert", "operations", "#shown"),
        ("/keys", ["results:read"], "#keys-note", "keys:manage", "#maker"),
        ("/new", ["results:read", "content:read"], "#missing", "content:write", "#studio"),
    ],
    ids=["contests", "operations", "keys", "studio"],
)
async def test_a_page_names_the_permission_that_a_key_lacks_and_shows_nothing_else(
    api: Api, visit: Visit, issue: Issue, path: str, permissions: list[str], note: str, missing: str, hidden: str
) -> None:
    contest = await api.contest()
    page = await visit(f"/dashboard{path}", (await issue(*permissions)).api_key)
    await expect(page.locator(note).first).to_contain_text(missing)
    await expect(page.locator(hidden).first).to_be_hidden()
    for link in ("Operations", "API keys", "New contest"):
        await expect(page.get_by_role("link", name=link)).to_be_hidden()
    await page.goto(f"/dashboard{contest.path}")
    await expect(page.locator("#ranking .name").first).to_have_text("Participant 0")


async def test_the_theme_is_the_system_s_until_another_is_chosen(visit: Visit) -> None:
    page = await visit("/dashboard", color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = await page.evaluate(ground)
    button = page.get_by_role("button", name="Theme")
    await button.click()
    await expect(button).to_have_text("Theme: light")
    assert await page.evaluate(ground) != dark
    await page.reload()
    await expect(button).to_have_text("Theme: light")
    await button.click()
    assert await page.evaluate(ground) == dark


async def test_contests_can_be_searched_filtered_and_show_their_type_and_finality(api: Api, visit: Visit) -> None:
    unique = uuid.uuid4().hex
    await api.contest(body=running() | {"title": f"Rated {unique}", "contest_type": "rating"})
    over = await api.contest(body=running() | {"title": f"Over {unique}"})
    await over.change(end=hours_from_now(1 / 3600))
    page = await visit("/dashboard", alone=True)
    items = page.locator("#contests li:visible")
    await page.get_by_label("Find a contest").fill(unique.upper())
    await expect(items).to_have_count(2)
    await page.get_by_label("Type").select_option("Rating")
    await expect(items).to_have_text([re.compile(f"Rated {unique}.*Running.*Rating.*0 ratings", re.DOTALL)])
    await page.get_by_label("Type").select_option("All types")
    await page.clock.install()
    await page.reload()
    await page.get_by_label("Phase").select_option("Finished")
    await page.get_by_label("Find a contest").fill(unique)
    final = items.filter(has_text="Over").get_by_text("Final")
    await eventually(lambda: _is_shown(page, final), every_s=0.3)
    await page.get_by_label("Find a contest").fill("nothing of the kind")
    await expect(page.locator("#contests-note")).to_have_text("No contest matches.")


async def _is_shown(page: Page, part: Locator) -> bool:
    await page.clock.run_for(10_000)
    return await part.count() == 1 and await part.is_visible()


async def test_it_says_why_a_log_in_is_needed_and_when_the_session_ends(
    visit: Visit, issue: Issue, catalogue: Catalogue
) -> None:
    key = await issue()
    page = await visit("/dashboard", key.api_key)
    await expect(page.locator("#log-out")).to_be_visible()
    await revoke_key(catalogue.writer, await find_key(catalogue.views, key.key_id))
    await eventually(lambda: _is_refused(page, key.api_key), every_s=0.3)
    await page.reload()
    await expect(page.locator("#log-in-error")).to_contain_text("revoked")

    soon = await visit("/dashboard", alone=True)
    await soon.clock.install(time=datetime.now(UTC) + timedelta(hours=11, minutes=55))
    await soon.goto("/dashboard")
    await expect(soon.locator("#log-out")).to_be_visible()
    await expect(soon.locator("#session-ends")).to_be_hidden()  # by the service's time

    async def end_soon(route: Route) -> None:
        answer = await route.fetch()
        expires = datetime.now(UTC) + timedelta(minutes=5)
        await route.fulfill(
            response=answer, json=await answer.json() | {"expires": f"{expires:%Y-%m-%dT%H:%M:%SZ}"}
        )

    await soon.route("**/dashboard/session", end_soon)
    await soon.reload()
    await expect(soon.locator("#session-ends")).to_contain_text("Your session ends at")
    await soon.get_by_role("button", name="Log in again").click()
    await expect(soon.get_by_role("dialog", name="Log in")).to_be_visible()


async def _is_refused(page: Page, api_key: str) -> bool:
    answer = await page.context.request.get("/dashboard/session", headers={"Authorization": f"Bearer {api_key}"})
    return answer.status == 401


async def test_the_account_s_name_and_colour_are_on_its_pages_and_linked_walls(api: Api, visit: Visit) -> None:
    looks = {"primary_color": "#123456"}
    changed = await api.client.patch("/account", json={"brand_name": "Radio Example", "looks": looks})
    assert changed.status_code == 200
    try:
        page = await visit("/dashboard")
        await expect(page.locator(".brand")).to_have_text("Radio Example")
        brand = "document.documentElement.style.getPropertyValue('--brand')"
        await page.wait_for_function(f"() => {brand} === '#123456'")
        contest = await api.contest()
        link = (await api.client.post(f"{contest.path}/links", json={})).json()["url"]
        wall = await visit(link, key="")
        await wall.wait_for_function(f"() => {brand} === '#123456'")
    finally:
        await api.client.patch("/account", json={"brand_name": None, "looks": {"primary_color": None}})
