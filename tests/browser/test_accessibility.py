"""Every page at every size, light and dark: no serious axe finding, no overflow, everything visible.

The pictures lie in `TALLY_SCREENSHOTS`, where that names a directory, for a person to check.
"""

from functools import partial
from typing import Final

import pytest
from playwright.async_api import expect

from tests.browser.contest_pages import IN_SIGHT, picture
from tests.support.clients.browser_types import Visit
from tests.support.clients.soundness import SIZES, is_sound
from tests.support.clients.voting import Api, running
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow

ZOOMED: Final = (683, 384)
"""A laptop's window at 200 % zoom, in the pixels of style sheets."""
NAMES: Final = ("Aurora Vale", "The Copper Lanterns", "Nine Rivers", "Marlow & Finch", "Ünïcødé " + "long " * 12)


async def test_a_contest_at_every_size(api: Api, visit: Visit) -> None:
    contest = await api.contest(0, running() | {"title": "Song of the Year"})
    for number, name in enumerate(NAMES):
        participant = await api.participant(contest, title=name)
        for voter in range(1 + 2 * number % 5):
            assert (await contest.vote(participant, f"{number}.{voter}")).status_code == 201
    for size, (width, height) in SIZES.items():
        view = "/wall" if size == "wall" else ""
        page = await visit(f"/dashboard{contest.path}{view}", size=(width, height))
        await expect(page.locator("#live")).to_have_text("Live")
        if not view:
            await expect(page.locator("#chart canvas")).to_be_visible()
        await expect(page.locator("#ranking li")).to_have_count(len(NAMES))
        await is_sound(page, f"contest-{size}")
    assert await page.evaluate("document.documentElement.scrollHeight <= innerHeight")
    for number in range(10 - len(NAMES)):
        await api.participant(contest, title=f"Another {number}")
    await expect(page.locator("#ranking li")).to_have_count(10)
    await eventually(partial(page.locator("#ranking li").evaluate_all, IN_SIGHT))
    await picture(page, "contest-wall-full")
    smallest = await visit(f"/dashboard{contest.path}", size=(320, 600))
    await expect(smallest.locator("#ranking li")).to_have_count(10)
    assert await smallest.evaluate("document.documentElement.scrollWidth") == 320


async def test_log_in_and_the_list(api: Api, visit: Visit) -> None:
    await api.contest()
    page = await visit("/dashboard", key="", size=SIZES["phone"])
    await expect(page.get_by_role("dialog")).to_be_visible()
    await is_sound(page, "log-in")
    page = await visit("/dashboard", size=SIZES["phone"])
    await expect(page.locator("#contests li").first).to_contain_text("vote")
    await is_sound(page, "contests")


@pytest.mark.parametrize("path", ["/", "/asyncapi"])
async def test_the_pages_of_the_documents(visit: Visit, path: str) -> None:
    for name, size in (("phone", SIZES["phone"]), ("zoomed", ZOOMED)):
        page = await visit(path, size=size)
        await expect(page.get_by_role("heading").first).to_be_visible()
        await is_sound(page, f"document-{path[1:] or 'index'}-{name}")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/dashboard", "Abstimmungen"),
        ("/dashboard/keys", "Schlüssel des Kontos"),
        ("/dashboard/operations", "Partitionen"),
    ],
)
async def test_every_list_in_german_at_200_percent(visit: Visit, path: str, text: str) -> None:
    page = await visit(f"{path}?lang=de", size=ZOOMED)
    await expect(page.locator("main")).to_contain_text(text)
    if path.endswith("operations"):
        await expect(page.locator("#fine, #problems li").first).not_to_be_empty()
        await expect(page.locator("#projections")).to_contain_text("verarbeitet")
        await expect(page.locator("#rows")).to_contain_text("Stimmen, alle")
    await expect(page.locator("main")).not_to_contain_text("Lädt …")
    assert await page.evaluate("document.documentElement.lang") == "de"
    await is_sound(page, f"german{path.replace('/', '-')}")


async def test_the_dialogs_of_a_contest(api: Api, visit: Visit) -> None:
    contest = await api.contest(1, vote_visibility="hidden_until_end")
    page = await visit(f"/dashboard{contest.path}")
    await expect(page.locator("#hidden-mark")).to_be_visible()
    for button, dialog in (
        ("#reveal-all", "#ask-hidden"),
        ("#call-edit", "#ask-call"),
        ("#message-edit", "#ask-message"),
        ("#links-edit", "#ask-links"),
    ):
        await page.locator(button).click()
        await expect(page.locator(dialog)).to_be_visible()
        await is_sound(page, f"dialog-{dialog[1:]}")
        await page.keyboard.press("Escape")
        await expect(page.locator(dialog)).to_be_hidden()
