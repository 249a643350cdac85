"""The page of a contest: what it says of the counts, exports, languages."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.support.browser_types import Visit
from tests.support.voting import Api, Contest, hours_from_now, running

pytestmark = pytest.mark.slow

NAMES = ["Aurora Vale", "The Copper Lanterns", "Die Gebrüder von Hohenstein-Wolfenbüttel " + "und so weiter " * 4]
IN_SIGHT = """items => items.every((item) => {
  const { top, bottom, left, right } = item.getBoundingClientRect();
  const isIn = (part) => {
    const place = part.getBoundingClientRect();
    return place.top >= top - 1 && place.bottom <= bottom + 1 && place.left >= left && place.right <= right + 1;
  };
  const parts = [...item.querySelectorAll(".face, .name, .track, .count, .share")];
  return bottom <= innerHeight + 1 && right <= innerWidth && parts.every(isIn);
})"""
"""Return whether the rows lie on the screen, and their parts in them."""


def page_of(contest: Contest) -> str:
    return f"/dashboard{contest.path}"


async def names(page: Page) -> list[str]:
    return await page.locator("#ranking .name").all_inner_texts()


async def lead(contest: Contest, participant: int, votes: int) -> None:
    voter = f"{participant}-{votes}"
    answer = await contest.vote(participant, voter, source="c-paid", count=votes)
    assert answer.status_code == 201


async def test_changed_places_have_arrows_and_the_lead_has_a_name(api: Api, visit: Visit) -> None:
    contest = await api.contest(2)
    await lead(contest, 0, 3)
    page = await visit(page_of(contest), reduced_motion="no-preference")
    await expect(page.locator("#leader")).to_have_text("Participant 0")
    await lead(contest, 1, 8)
    await expect(page.locator("#ranking .moved")).to_have_text(["▲1", "▼1"])
    await expect(page.locator("#leader")).to_have_text("Participant 1")


async def test_the_final_result_is_announced_and_its_winner_marked(api: Api, visit: Visit) -> None:
    contest = await api.contest()
    await lead(contest, 1, 4)
    page = await visit(page_of(contest))
    await expect(page.locator("#count")).to_have_text("4")
    await contest.change(end=hours_from_now(1 / 3600))
    await expect(page.locator("#said")).to_have_text("Final result: Participant 1 with 4 votes.", timeout=20_000)
    await expect(page.locator("#ranking li.winner .name")).to_have_text("Participant 1")


async def test_ordering_contests_say_points_beside_ballots_and_ratings_show_their_distribution(
    api: Api, visit: Visit
) -> None:
    positions = [{"id": "1", "votes": 3}, {"id": "2", "votes": 1}]
    order = await api.contest(body=running(ordering={"positions": positions}) | {"contest_type": "ordering"})
    for voter in ("ann", "bob"):
        assert (await order.ballot(1, 0, voter=voter)).status_code == 201
    page = await visit(page_of(order))
    await expect(page.locator("#ranking .count").first).to_have_text("6 points")
    await expect(page.locator("#ranking .share").first).to_have_text("2 ballots · 75.0 %")
    await expect(page.locator("#unique-unit")).to_have_text("Ballots")

    rated = await api.contest(body=running() | {"contest_type": "rating"})
    for voter, value in (("ann", 5), ("bob", 5), ("cid", 2)):
        assert (await rated.rate(0, value, voter)).status_code == 201
    page = await visit(page_of(rated))
    await expect(page.locator("#ranking .values").first).to_have_attribute("title", "2: 1, 5: 2")


async def test_a_view_is_its_address_with_a_language(api: Api, visit: Visit) -> None:
    contest = await api.contest()
    page = await visit(page_of(contest), permissions=["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Chart", exact=True).click()
    await expect(page.locator("#chart")).to_be_hidden()
    await page.get_by_role("button", name="Copy link").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = await page.evaluate("navigator.clipboard.readText()")
    same = await visit(f"{link}&lang=de")
    await expect(same.locator("#chart")).to_be_hidden()
    await expect(same.locator("#phase")).to_have_text("Läuft")
    await expect(same.get_by_role("button", name="Anhalten")).to_be_visible()
    await expect(same.locator("html")).to_have_attribute("lang", "de")
    await same.get_by_label("Sprache").select_option("English")
    await expect(same.locator("#phase")).to_have_text("Running")


async def test_the_result_is_saved_as_a_table_and_as_a_picture(api: Api, visit: Visit) -> None:
    contest = await api.contest(0)
    for title in ("=1+1", 'Ada, "A"'):
        await api.participant(contest, title=title)
    page = await visit(page_of(contest))
    await expect(page.locator("#ranking li")).to_have_count(2)
    table = await saved(page, "CSV")
    lines = table.read_text("utf-8-sig").splitlines()
    assert lines[0] == "rank,participant,key,count,share,voters"
    assert [line.split(",", 1)[1].rsplit(",", 4)[0] for line in lines[1:]] == ["'=1+1", '"Ada, ""A"""']
    picture = await saved(page, "PNG")
    assert picture.read_bytes().startswith(b"\x89PNG")


async def saved(page: Page, button: str) -> Path:
    async with page.expect_download() as download:
        await page.get_by_role("button", name=button).click()
    path: Any = await (await download.value).path()
    return Path(path)
