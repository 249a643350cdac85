"""Log-in, the list of contests, and the common frame of all pages, in a browser."""

from playwright.async_api import expect

from libs.local_stack.supervisor import Supervisor
from tests.support.browser_types import Issue, Visit
from tests.support.voting import Api, running


async def test_whoever_is_not_logged_in_is_asked_for_a_key(
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
    await listed.get_by_role("link").click()
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


async def test_a_key_that_may_not_list_contests_is_told_the_way(api: Api, visit: Visit, issue: Issue) -> None:
    contest = await api.contest()
    key = await issue("results:read")
    page = await visit("/dashboard", key.api_key)
    await expect(page.locator("#contests-note")).to_contain_text("content:read")
    await expect(page.get_by_role("link", name="Operations")).to_be_hidden()
    await page.goto(f"/dashboard{contest.path}")
    await expect(page.locator("#ranking .name").first).to_have_text(contest.participants[0])


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
