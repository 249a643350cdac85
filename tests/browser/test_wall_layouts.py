"""The layouts of a wall over a real show: what each receives and shows, and marks that a producer hides."""

from typing import Any, Final

import pytest
from playwright.async_api import expect

from tests.browser.contest_pages import HALL, lead, page_of, picture, pixels, press, wall_of
from tests.support.clients.browser_types import Visit
from tests.support.clients.voting import Api, Contest, hours_from_now, running

pytestmark = pytest.mark.slow

NAMES: Final = ("Żubry", "Åse Ødegård", "Jalapeño gypsy", "عُمَر الخيّام", "Ģirts Ķēniņš", "Ắnh Nguyễn")


async def final_of(api: Api, *votes: int, **config: Any) -> Contest:
    """Return a contest of as many acts as there are votes, with names that rise and fall far."""
    contest = await api.contest(0, running(**config) | {"title": "Fjörður Żółć بَهِيّة"})
    for number, count in enumerate(votes):
        contest.participants.append(await api.participant(contest, title=NAMES[number % len(NAMES)]))
        if count:
            await lead(contest, number, count)
    return contest


async def direct(contest: Contest, **show: Any) -> None:
    assert (await contest.client.put(f"{contest.path}/show", json=show)).status_code == 200


async def test_bars_and_lower_third_show_what_the_show_allows(api: Api, visit: Visit) -> None:
    contest = await final_of(api, 30, 20, 10)
    bars = await visit(f"{wall_of(contest)}?layout=bars", size=HALL)
    third = await visit(f"{wall_of(contest)}?layout=lower-third", size=HALL)
    await expect(bars.locator(".column .figure")).to_have_text(["30", "20", "10"])
    await expect(third.locator(".entry .figure")).to_have_text(["30", "20", "10"])
    box = await third.locator("#stage").bounding_box()
    assert box
    assert box["y"] > HALL[1] * 2 / 3
    await direct(contest, state="reveal", revealed=1)
    await expect(bars.locator(".column .name")).to_have_text(["?", "?", NAMES[2]])
    await expect(third.locator(".entry .name")).to_have_text(["?", "?", NAMES[2]])
    await picture(bars, "bars-reveal")
    await direct(contest, state="live")
    await contest.change(vote_visibility="hidden")
    await expect(bars.locator(".column .figure")).to_have_text(["", "", ""])
    await expect(third.locator(".entry .name")).to_have_text([*NAMES[:3]])


async def test_the_winner_is_shown_when_the_final_result_is_revealed_as_a_whole(api: Api, visit: Visit) -> None:
    contest = await final_of(api, 30, 30, 10)
    page = await visit(f"{wall_of(contest)}?layout=winner", size=HALL)
    await expect(page.locator("body")).not_to_contain_class("unknown")
    await expect(page.locator(".best")).to_have_count(0)
    await direct(contest, state="reveal")
    await contest.end()
    await direct(contest, state="live")
    await direct(contest, state="reveal", revealed=1)
    await expect(page.locator("body")).to_contain_class("reveal")
    await expect(page.locator(".best")).to_have_count(0)
    await direct(contest, state="reveal", revealed=2)
    await expect(page.locator(".best .name")).to_have_text([NAMES[0], NAMES[1]])
    await picture(page, "winners")


async def test_the_last_minute_is_alone_on_the_screen(api: Api, visit: Visit) -> None:
    contest = await final_of(api, 1, 0)
    page = await visit(f"{wall_of(contest)}?layout=countdown", size=HALL)
    await expect(page.locator(".stage .label")).to_have_text("Voting ends in")
    await expect(page.locator(".stage .time")).to_contain_text(":")
    await contest.change(end=hours_from_now(50 / 3600))
    await expect(page.locator("body")).to_contain_class("last-minute")
    await expect(page.locator(".title")).to_be_hidden()
    await picture(page, "last-minute")
    await contest.end(final=False)
    await expect(page.locator(".stage .label")).to_have_text("Voting has ended")


async def test_nobody_is_first_before_the_first_vote_and_a_producer_chooses_colours(
    api: Api, visit: Visit
) -> None:
    contest = await final_of(api, 0, 0)
    wall, desk = await visit(wall_of(contest), size=HALL), await visit(page_of(contest))
    for page in (wall, desk):
        await expect(page.locator("#ranking .count")).to_have_text(["0", "0"])
        await expect(page.locator("#ranking .at")).to_have_text(["", ""])
    await lead(contest, 1, 3)
    answer = await api.client.patch(f"/participants/{contest.participants[1]}", json={"color": "#00aa44"})
    assert answer.status_code == 200, answer.text
    for page in (wall, desk):
        await expect(page.locator("#ranking .at")).to_have_text(["1", "2"])
        await expect(page.locator("#ranking .fill").first).to_have_css("background-color", "rgb(0, 170, 68)")
    wrong = await api.client.patch(f"/participants/{contest.participants[1]}", json={"color": "green"})
    assert wrong.status_code == 422


async def test_the_marks_of_the_operator_can_be_hidden_and_the_background_left_out(api: Api, visit: Visit) -> None:
    contest = await final_of(api, 3, 2)
    await direct(contest, state="held")
    same = {name: f"#{name}" for name in ("live", "phase", "countdown", "figures")}
    marks = same | {"provisional": "#finality", "held": "#held-mark", "anonymous": "#anonymous-panel"}
    desk = await visit(page_of(contest))
    await press(desk, "Links", "Create a link")
    for name in (*marks, "ground"):
        await desk.locator(f"#wall-look input[value={name}]").check()
    address = await desk.get_by_label("Address of the link").input_value()
    await picture(desk, "desk-look")
    for scheme in ("light", "dark"):
        wall = await visit(address, key="", size=HALL, color_scheme=scheme)
        await expect(wall.locator("#ranking .name").first).to_be_visible()
        for mark in marks.values():
            await expect(wall.locator(mark)).to_be_hidden()
        taken = await pixels(wall)
        assert taken.getpixel((2, HALL[1] - 2)) == (0, 0, 0, 0)
