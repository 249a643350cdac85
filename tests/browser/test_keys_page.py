"""The page of API keys: makes one, shows it once, revokes it."""

import httpx
import pytest
from playwright.async_api import expect

from libs.local_stack.supervisor import Supervisor
from tests.browser.contest_pages import press
from tests.support.clients.browser_types import Issue, Visit
from tests.support.clients.soundness import SIZES, is_sound
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow
PATH = "/dashboard/keys"


async def status_of(stack: Supervisor, key: str) -> int:
    async with httpx.AsyncClient(base_url=stack.stack["base_url"], trust_env=False) as client:
        return (await client.get("/contests", headers={"authorization": f"Bearer {key}"})).status_code


async def test_a_key_is_made_shown_once_and_revoked(stack: Supervisor, visit: Visit, issue: Issue) -> None:
    owner = await issue("keys:manage", "content:read", "results:read")
    page = await visit(PATH, owner.api_key)
    await expect(page.get_by_role("link", name="API keys")).to_have_attribute("aria-current", "page")
    await expect(page.get_by_role("checkbox")).to_have_count(3)
    await press(page, "Create the key")
    await expect(page.locator("#refused")).to_have_text("Choose at least one permission.")
    await page.get_by_label("Name").fill("Backend <b>")
    await page.get_by_label("content:read").check()
    await page.get_by_label("Requests per second").fill("7")
    await press(page, "Create the key")
    await expect(page.locator("#text")).not_to_be_empty()
    text = await page.locator("#text").text_content()
    assert text is not None
    assert await status_of(stack, text) == 200
    first = page.locator("#keys li").first
    await expect(first).to_contain_text("Backend <b>")
    await expect(first).to_contain_text("7 requests a second")
    await is_sound(page, "keys-laptop")
    await page.reload()
    await expect(page.locator("#keys li").first).to_contain_text("Backend <b>")
    await expect(page.locator("#created")).to_be_hidden()
    await press(page, "Revoke Backend <b>", "Revoke for good")
    await expect(page.locator("#keys-note")).to_have_text("Revoked Backend <b>.")

    async def is_refused() -> bool:
        return await status_of(stack, text) == 401

    await eventually(is_refused)


async def test_a_refusal_is_shown_at_the_form_and_the_page_is_sound(visit: Visit) -> None:
    page = await visit(PATH, size=SIZES["phone"])
    await page.get_by_label("content:read").check()
    await page.get_by_label("Networks").fill("everywhere")
    await press(page, "Create the key")
    await expect(page.locator("#refused")).to_contain_text("192.0.2.0/24")
    await expect(page.locator("#created")).to_be_hidden()
    await page.get_by_label("Networks").fill("")
    await press(page, "Create the key")
    await expect(page.locator("#created")).to_be_visible()
    await is_sound(page, "keys-phone")
