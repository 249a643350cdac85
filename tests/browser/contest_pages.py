"""A contest's page, its wall and its votes, as tests in a browser use them."""

import os
from io import BytesIO
from pathlib import Path
from typing import Any, Final

from PIL import Image
from playwright.async_api import Locator, Page

from tests.support.clients.browser_types import Visit
from tests.support.clients.network_traffic import Traffic
from tests.support.clients.voting import Contest

HALL: Final = (1920, 1080)
SOON_MS: Final = 60_000
"""For what needs servers to answer again, or to be well."""
IN_SIGHT: Final = """items => items.every((item) => {
  const { top, bottom, left, right } = item.getBoundingClientRect();
  const isIn = (part) => {
    const place = part.getBoundingClientRect();
    return place.top >= top - 1 && place.bottom <= bottom + 1 && place.left >= left && place.right <= right + 1;
  };
  const parts = [...item.querySelectorAll(".face, .name, .track, .count, .share")];
  return bottom <= innerHeight + 1 && right <= innerWidth && parts.every(isIn);
})"""
"""Return whether the rows lie on the screen, and their parts in them."""
WHOLE: Final = """texts => texts.length > 0 && texts.every((text) => text.scrollHeight <= text.clientHeight + 1
  && text.scrollWidth <= text.clientWidth + 1)"""
"""Return whether no text is cut."""


def page_of(contest: Contest) -> str:
    return f"/dashboard{contest.path}"


def wall_of(contest: Contest) -> str:
    return f"{page_of(contest)}/wall"


def row(page: Page, name: str) -> Locator:
    return page.locator("#ranking li").filter(has_text=name)


async def names(page: Page) -> list[str]:
    return await page.locator("#ranking .name").all_inner_texts()


async def lead(contest: Contest, participant: int, votes: int) -> None:
    """Give a participant so many paid votes."""
    voter = f"{participant}-{votes}"
    assert (await contest.vote(participant, voter, source="c-paid", count=votes)).status_code == 201


async def press(page: Page | Locator, *buttons: str) -> None:
    """Click buttons, by their names, one after the other."""
    for name in buttons:
        await page.get_by_role("button", name=name, exact=True).click()


async def recorded(visit: Visit, path: str, **options: Any) -> tuple[Page, Traffic]:
    """Open a page of its own, and record all that it receives."""
    page = await visit("about:blank", size=HALL, **options)
    traffic = await Traffic.record(page)
    await page.goto(path)
    return page, traffic


async def picture(page: Page, name: str) -> None:
    """Save a picture for a person to check, if `TALLY_SCREENSHOTS` names a directory."""
    if directory := os.environ.get("TALLY_SCREENSHOTS"):
        await page.screenshot(path=Path(directory) / f"{name}.png")


async def pixels(page: Page) -> Image.Image:
    """Return the picture of a page, with its transparency."""
    taken = await page.screenshot(omit_background=True, animations="disabled")
    return Image.open(BytesIO(taken)).convert("RGBA")


async def saved(page: Page, button: str) -> Path:
    """Return the file that a button saves."""
    async with page.expect_download() as download:
        await page.get_by_role("button", name=button).click()
    path: Any = await (await download.value).path()
    return Path(path)
