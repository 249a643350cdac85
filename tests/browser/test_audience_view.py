"""The page of a contest before an audience: wall, hold, reveal, exports, languages."""

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.support.browser_types import Visit
from tests.support.eventually import eventually
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


async def test_hidden_counts_are_marked_and_reach_the_wall_only_after_a_confirmation(
    api: Api, visit: Visit
) -> None:
    contest = await api.contest(vote_visibility="hidden_until_end")
    await lead(contest, 0, 7)
    page = await visit(page_of(contest))
    await expect(page.locator("#hidden-mark")).to_contain_text("Hidden from the public until")
    html, dialog = page.locator("html"), page.get_by_role("dialog", name="Show hidden counts?")
    await page.keyboard.press("f")
    await expect(dialog).to_be_visible()
    await page.keyboard.press("Enter")
    await expect(dialog).to_be_hidden()
    await expect(html).not_to_have_attribute("data-asking", "")
    assert await html.get_attribute("data-view") is None
    await page.keyboard.press("f")
    await dialog.get_by_role("button", name="Show them on the wall").click()
    await expect(html).to_have_attribute("data-view", "wall")

    linked = await visit(page_of(contest) + "?view=wall")
    await expect(linked.get_by_role("dialog")).to_be_visible()
    await expect(linked.locator("main")).to_be_hidden()
    await linked.get_by_role("button", name="Do not show them").click()
    await expect(linked.locator("html")).not_to_have_attribute("data-view", "wall")


async def test_a_held_board_stays_while_votes_go_on_and_a_reveal_opens_the_last_place_first(
    api: Api, visit: Visit
) -> None:
    contest = await api.contest(3)
    for participant, votes in enumerate((9, 5, 3)):
        await lead(contest, participant, votes)
    page = await visit(page_of(contest))
    count = page.locator("#count")
    await expect(count).to_have_text("17")
    await page.keyboard.press("h")
    await expect(page.locator("#held-mark")).to_contain_text("Held at")
    await lead(contest, 1, 90)
    other = await visit(page_of(contest))
    await expect(other.locator("#count")).to_have_text("107")
    await expect(count).to_have_text("17")
    await page.keyboard.press("r")
    await expect(page.locator("#ranking .name")).to_have_text(["?", "?", "?"])
    await expect(page.locator("#lead")).to_have_text("–")
    assert "95" not in await page.locator("main").inner_text()
    await page.keyboard.press("PageDown")
    await expect(page.locator("#ranking .name")).to_have_text(["?", "?", "Participant 2"])
    # its bar does not show how far a covered place is ahead
    await expect(page.locator("#ranking li").nth(2)).to_have_attribute("style", re.compile(r"--part: ?1;"))
    await page.get_by_role("button", name="All places").click()
    await expect(page.locator("#ranking .name")).to_have_text(["Participant 1", "Participant 0", "Participant 2"])
    await page.get_by_role("button", name="Hold").click()
    await expect(page.locator("#held-mark")).to_be_hidden()
    await lead(contest, 2, 1)
    await expect(count).to_have_text("108")


async def test_the_wall_follows_what_another_window_of_the_browser_holds_and_reveals(
    api: Api, visit: Visit
) -> None:
    contest = await api.contest(2)
    await lead(contest, 0, 3)
    desk = await visit(page_of(contest))
    await expect(desk.locator("#count")).to_have_text("3")
    wall, beside = await desk.context.new_page(), await desk.context.new_page()
    await wall.goto(page_of(contest) + "?view=wall")
    await beside.goto(page_of(contest))
    for page in (wall, beside):
        await expect(page.locator("#count")).to_have_text("3")
    await desk.keyboard.press("h")
    await expect(wall.locator("#held-mark")).to_be_visible()
    await lead(contest, 1, 5)
    await expect(beside.locator("#count")).to_have_text("8")
    assert await wall.locator("#count").text_content() == "3"
    await desk.keyboard.press("r")
    await expect(wall.locator("#ranking .name")).to_have_text(["?", "?"])
    await wall.reload()
    await expect(wall.locator("#ranking .name")).to_have_text(["?", "?"])
    await desk.keyboard.press("n")
    await expect(wall.locator("#ranking .name")).to_have_text(["?", "Participant 0"])
    await desk.keyboard.press("h")
    await expect(wall.locator("#count")).to_have_text("8")
    await expect(beside.locator("#held-mark")).to_be_hidden()


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


async def test_the_wall_fits_every_screen_and_turns_its_pages(api: Api, visit: Visit) -> None:
    contest = await api.contest(0, running() | {"title": "A rather long title of a contest " * 3})
    for number in range(24):
        await api.participant(contest, title=f"{number} {NAMES[number % 3]}")
    for size in ((1920, 1080), (1080, 1920)):
        page = await visit(page_of(contest) + "?view=wall", size=size)
        await expect(page.locator("#ranking li").first).to_be_visible()
        await expect(page.locator("#chart canvas")).to_be_visible()
        await eventually(partial(page.evaluate, "document.documentElement.scrollHeight <= innerHeight"))
        await eventually(partial(page.locator("#ranking li").evaluate_all, IN_SIGHT))
    laptop = await visit(page_of(contest) + "?view=wall")
    await expect(laptop.locator("#page")).to_contain_text(" of ")
    for size in ((683, 384), (390, 844)):
        page = await visit(page_of(contest) + "?view=wall", size=size)
        await expect(page.locator("#ranking li")).to_have_count(24)
        await eventually(partial(page.evaluate, "document.documentElement.scrollWidth <= innerWidth"))
    await page.keyboard.press("f")
    await expect(page.locator("#wall")).to_be_hidden()


async def test_a_view_is_its_address_with_a_call_to_vote_and_a_language(api: Api, visit: Visit) -> None:
    contest = await api.contest()
    page = await visit(page_of(contest), permissions=["clipboard-read", "clipboard-write"])
    await page.get_by_role("button", name="Call to vote").click()
    await page.get_by_label("Text").fill("Vote now")
    await page.get_by_label("Address to vote at").fill("https://vote.example/song")
    await page.get_by_role("button", name="Show", exact=True).click()
    code = page.locator("#call-code")
    await expect(code).to_be_visible()
    await page.wait_for_function("() => document.getElementById('call-code').naturalWidth > 0")
    await page.get_by_role("button", name="Chart", exact=True).click()
    await expect(page.locator("#chart")).to_be_hidden()
    await page.get_by_role("button", name="Copy link").click()
    await expect(page.get_by_role("button", name="Copied")).to_be_visible()
    link = await page.evaluate("navigator.clipboard.readText()")
    same = await visit(f"{link}&lang=de")
    await expect(same.locator("#call-text")).to_have_text("Vote now")
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
