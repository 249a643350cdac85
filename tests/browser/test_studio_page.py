"""The studio: a contest from nothing to its released result, by the pages alone."""

import json
import re
from typing import Any

import pytest
from playwright.async_api import FilePayload, Locator, Page, Route, expect

from tests.browser.contest_pages import picture as picture_of
from tests.browser.contest_pages import press, saved
from tests.support.builders.pictures import picture
from tests.support.clients.browser_types import Visit
from tests.support.clients.soundness import SIZES, is_sound
from tests.support.clients.voting import Api, Contest, hours_from_now, running
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow
NEW = "/dashboard/new"
DROP = """async () => {
  const given = new DataTransfer();
  const picture = await (await fetch("/dashboard/assets/icon.svg")).blob();
  for (const name of ["One.png", "Two.png"]) given.items.add(new File([picture], name, { type: "image/png" }));
  const event = new DragEvent("drop", { dataTransfer: given, bubbles: true, cancelable: true });
  document.getElementById("drop").dispatchEvent(event);
}"""
"""Drop two pictures."""


async def created(page: Page, title: str) -> str:
    """Create a contest with what the form proposes; return its key."""
    await page.get_by_label("Title", exact=True).fill(title)
    await press(page, "Create the contest")
    await expect(page.locator("#beside")).to_be_visible()
    return page.url.split("/")[-2]


async def record(api: Api, path: str) -> dict[str, Any]:
    return (await api.client.get(path)).json()


async def acts_of(api: Api, key: str) -> list[dict[str, Any]]:
    path = f"/contests/{key}/participants?order=running_number&limit=100"
    return (await record(api, path))["data"]


async def titles_of(api: Api, key: str) -> list[str]:
    return [act["title"] for act in await acts_of(api, key)]


def file(name: str) -> FilePayload:
    return FilePayload(name=name, mimeType="image/png", buffer=picture("png", 60, 40))


async def test_a_new_contest_has_no_address_limit_and_says_its_rules_in_words(api: Api, visit: Visit) -> None:
    page = await visit(NEW)
    await expect(page.locator("#words")).to_contain_text("A voter has 1 vote for each participant.")
    await expect(page.locator("#words")).to_contain_text("One address has no limit: a hall can vote.")
    await page.get_by_label("Votes of one voter in the whole contest").fill("3")
    await expect(page.locator("#words")).to_contain_text("A voter has 3 votes in the whole contest.")
    visibility = page.get_by_label("Counts are seen by the public")
    await page.get_by_label("The result is released").select_option("by_hand")
    await expect(visibility).to_have_value("hidden_until_end")
    await visibility.select_option("shown")
    await expect(page.locator("#words")).to_contain_text("Everybody knows the result before you release it")
    await page.get_by_label("The result is released").select_option("at_end")
    key = await created(page, "Song <b>")
    contest = await record(api, f"/contests/{key}")
    config = contest["contest_config"]
    assert (contest["title"], contest["phase"]) == ("Song <b>", "setup")
    assert config["ip_restriction_per_participant"] == -1
    assert config["free"] == {"is_mobile_only": False, "max_contest": 3, "max_participant": 1}
    await page.get_by_label("Votes for one participant from one address").fill("20")
    await page.get_by_label("Title", exact=True).fill("It's another")
    await press(page, "Save the contest")
    await expect(page.locator("#done")).to_have_text("Saved.")
    contest = await record(api, f"/contests/{key}")
    assert (contest["title"], contest["contest_config"]["ip_restriction_per_participant"]) == ("It's another", 20)
    # the line that it shows does what it did
    line = await page.locator("#sent").text_content()
    assert line is not None
    assert line.startswith("curl -X PATCH 'http")
    assert '-H "Authorization: Bearer $TALLY_API_KEY"' in line
    body = line.partition(" -d '")[2].removesuffix("'").replace("'\\''", "'")
    assert json.loads(body)["title"] == "It's another"


async def test_ratings_and_ballots_have_rules_of_their_own(api: Api, visit: Visit) -> None:
    for kind, label, given in (("rating", "Highest rating", "7"), ("ordering", "Points of the places", "3, 1")):
        page = await visit(NEW)
        await page.get_by_label("Kind of vote").select_option(kind)
        await page.get_by_label(label).fill(given)
        config = (await record(api, f"/contests/{await created(page, kind)}"))["contest_config"]
        if kind == "rating":
            assert (config["rating"]["max_rating"], config["rating"]["max_per_participant"]) == (7, 1)
        else:
            assert [position["votes"] for position in config["ordering"]["positions"]] == [3, 1]


async def test_acts_come_from_pictures_and_a_table_in_the_order_of_the_hand(api: Api, visit: Visit) -> None:
    page = await visit(NEW)
    key = await created(page, "Acts")
    await page.locator("#files").set_input_files([file("Nine_Rivers.png"), file("Jean-Luc_Żubry.png")])
    await expect(page.locator("#acts img")).to_have_count(2)
    await page.get_by_label("Paste acts").fill("Åse\tNorway\nAda")
    await page.get_by_label("Paste acts").blur()
    await expect(page.locator("#acts li")).to_have_count(4)
    await page.get_by_role("button", name="Move up").nth(2).click()
    await expect(page.get_by_label("Name of act 2")).to_have_value("Åse")
    await page.get_by_role("button", name="Remove").nth(3).click()
    await press(page, "Save the acts")
    await expect(page.locator("#unsaved")).to_have_text("")
    await expect(page.locator("#acts").get_by_role("button", name="Remove", exact=True)).to_have_count(3)
    await expect(page.get_by_role("button", name="Disqualify")).to_have_count(0)  # nobody has seen them yet
    acts = await acts_of(api, key)
    assert [act["title"] for act in acts] == ["Nine Rivers", "Åse", "Jean-Luc Żubry"]
    assert [bool(act["image_key"]) for act in acts] == [True, False, True]
    assert acts[1]["story"] == "Norway"
    await page.get_by_label("Name of act 2").fill("Åse Lind")
    await press(page, "Save the acts")
    await expect(page.locator("#unsaved")).to_have_text("")
    assert await titles_of(api, key) == ["Nine Rivers", "Åse Lind", "Jean-Luc Żubry"]
    await page.reload()
    await expect(page.locator("#acts img")).to_have_count(2)
    await expect(page.locator("#preview")).to_contain_text("Åse Lind")
    wall = page.frame_locator("#wall-preview")
    await expect(wall.locator("#ranking .name")).to_have_text(["Nine Rivers", "Åse Lind", "Jean-Luc Żubry"])
    await page.get_by_role("button", name="Remove").nth(1).click()
    await press(page, "Remove Åse Lind")
    await expect(page.locator("#acts li")).to_have_count(2)
    assert await titles_of(api, key) == ["Nine Rivers", "Jean-Luc Żubry"]
    await press(page, "Open now", "Open voting")
    await expect(page.locator("#phase")).to_have_text("Running")
    await expect(page.locator("#acts").get_by_role("button", name="Remove")).to_have_count(0)
    await page.evaluate(DROP)
    await expect(page.get_by_label("Name of act 4")).to_have_value("Two")


async def order_of(api: Api, key: str) -> list[str]:
    """The titles as the public sees them."""
    return [each["title"] for each in (await record(api, f"/public/contests/{key}"))["participants"]]


async def test_saved_acts_are_dragged_and_moved_by_keyboard_and_their_order_is_saved_at_once(
    api: Api, visit: Visit
) -> None:
    contest = await api.contest(0)
    for title in ("Ada", "Bob", "Cyd", "Dee"):
        await api.participant(contest, title=title)
    page = await visit(f"/dashboard{contest.path}/edit")
    names, save = page.locator("#acts .act-title"), page.get_by_role("button", name="Save the acts")
    await expect(names).to_have_count(4)
    await expect(save).to_be_disabled()
    # dragged: the last one before the second
    grip, target = page.locator("#acts .grip").nth(3), page.locator("#acts li").nth(1)
    await grip.scroll_into_view_if_needed()
    start, end = await grip.bounding_box(), await target.bounding_box()
    assert start is not None
    assert end is not None
    await page.mouse.move(start["x"] + start["width"] / 2, start["y"] + start["height"] / 2)
    await page.mouse.down()
    await page.mouse.move(end["x"] + 40, end["y"] + end["height"] / 4, steps=5)
    await expect(page.locator("#acts .drop-before .act-title")).to_have_value("Bob")
    await picture_of(page, "studio-dragging")
    await page.mouse.up()
    await expect(page.locator("#acts .drop-before")).to_have_count(0)
    assert await titles_in(names) == ["Ada", "Dee", "Bob", "Cyd"]
    # by keyboard: the focus stays on the button
    await page.get_by_role("button", name="Move up: Cyd").focus()
    for _ in range(5):
        await page.keyboard.press("Enter")
    assert await titles_in(names) == ["Cyd", "Ada", "Dee", "Bob"]
    await expect(page.locator("#moved")).to_have_text("Cyd: place 1 of 4")
    await expect(page.get_by_role("button", name="Move up: Cyd")).to_be_focused()
    await expect(page.locator("#unsaved")).to_have_text("The order is not saved yet.")
    await expect(page.locator("#preview .phone-act strong")).to_have_text(["Cyd", "Ada", "Dee", "Bob"])
    assert await order_of(api, contest.key) == ["Ada", "Bob", "Cyd", "Dee"]
    # a new act in the midst is saved with the order
    await press(page, "Add an act")
    await page.get_by_label("Name of act 5").fill("Eve")
    await press(page, "Move up: Eve")
    await save.click()
    await expect(page.locator("#unsaved")).to_have_text("")
    assert await order_of(api, contest.key) == ["Cyd", "Ada", "Dee", "Eve", "Bob"]
    lines = (await page.locator("#sent").text_content() or "").splitlines()
    assert [line.split()[2] for line in lines] == ["POST", "PATCH"]
    assert "If-Match" in lines[1]
    await page.reload()
    await expect(names).to_have_count(5)
    assert await titles_in(names) == ["Cyd", "Ada", "Dee", "Eve", "Bob"]
    assert [act["running_number"] for act in await acts_of(api, contest.key)] == [1, 2, 3, 4, 5]


async def test_an_order_that_was_changed_elsewhere_is_shown_and_not_overwritten(api: Api, visit: Visit) -> None:
    contest = await api.contest(3)
    page = await visit(f"/dashboard{contest.path}/edit")
    names = page.locator("#acts .act-title")
    await press(page, "Move down: Participant 0")
    other = [contest.participants[at] for at in (2, 1, 0)]
    assert (await api.client.patch(contest.path, json={"running_order": other})).status_code == 200
    await press(page, "Save the acts")
    await expect(page.locator("#trouble")).to_contain_text("The order has been changed elsewhere.")
    assert await titles_in(names) == ["Participant 2", "Participant 1", "Participant 0"]
    assert (await record(api, contest.path))["running_order"] == other
    await press(page, "Move down: Participant 2", "Save the acts")
    await expect(page.locator("#unsaved")).to_have_text("")
    assert await order_of(api, contest.key) == ["Participant 1", "Participant 2", "Participant 0"]


async def titles_in(names: Locator) -> list[str]:
    return await names.evaluate_all("names => names.map((name) => name.value)")


async def test_a_contest_has_a_picture_and_its_result_is_a_table(api: Api, visit: Visit) -> None:
    page = await visit(NEW)
    await page.get_by_label("Picture", exact=True).first.set_input_files([file("Poster.png")])
    await expect(page.locator("#picture-shown")).to_be_visible()
    key = await created(page, "Poster")
    image = (await record(api, f"/contests/{key}"))["image"]["key"]
    await expect(page.locator("#picture-shown")).to_have_attribute("src", f"/media/image/{image}?size=thumb")
    contest = Contest(api.client, key, [])
    for title in ("Ada", "Bob"):
        contest.participants.append(await api.participant(contest, title=title))
    assert (await contest.change(start=hours_from_now(-1))).status_code == 200
    assert (await api.client.patch(contest.path, json={"publish": hours_from_now(-1)})).status_code == 200
    await contest.counts_with(await contest.vote(1))
    lines = (await saved(page, "CSV")).read_text("utf-8-sig").splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [["1", "Bob"], ["2", "Ada"]]


async def test_opening_keeps_what_was_filled_in_and_the_result_is_released(api: Api, visit: Visit) -> None:
    """The rehearsal opens, closes and reopens, too."""
    contest = await api.contest(1, running(start=hours_from_now(1), result_release="by_hand"))
    page = await visit(f"/dashboard{contest.path}/edit")
    await page.get_by_label("Text", exact=True).fill("Not saved yet")
    await press(page, "Open now", "Open voting")
    await expect(page.locator("#phase")).to_have_text("Running")
    await expect(page.get_by_label("Text", exact=True)).to_have_value("Not saved yet")
    assert (await contest.vote()).status_code == 201
    await press(page, "Close now", "Close voting")
    await expect(page.locator("#phase")).to_have_text("Finished")
    await contest.becomes_final()
    await press(page, "Release the result", "Release")
    await expect(page.locator("#control")).to_have_text("The result is released.")

    async def is_public() -> bool:
        return bool((await record(api, f"/public{contest.path}/results"))["count"] == 1)

    await eventually(is_public)


async def test_a_disqualification_says_what_it_changes_before_it_does(api: Api, visit: Visit) -> None:
    contest = await api.contest(2)
    votes = [await contest.vote(at, f"voter {voter}") for voter, at in enumerate((0, 0, 1))]
    await contest.counts_with(*votes)
    page = await visit(f"/dashboard{contest.path}/edit")
    first = page.locator("#acts li").first
    await press(first, "Disqualify")
    await expect(first).to_contain_text("2 votes no longer count: the total becomes 1 vote.")
    await press(first, "Cancel")
    assert (await acts_of(api, contest.key))[0]["status"] == "approved"
    await press(first, "Disqualify")
    await expect(first).to_contain_text("2 votes no longer count")
    await press(first, "Disqualify Participant 0")
    await expect(first.locator(".chip")).to_have_text("Disqualified")
    assert (await acts_of(api, contest.key))[0]["status"] == "rejected"
    await contest.end()
    await page.reload()
    second = page.locator("#acts li").nth(1)
    await press(second, "Disqualify")
    await expect(second).to_contain_text("it takes effect with a reopening")
    await press(second, "Disqualify Participant 1")
    await expect(second.locator(".chip")).to_contain_text("waits for a reopening")
    await press(first, "Admit again", "Admit Participant 0")
    await expect(page.locator("#reopening-effects li")).to_have_text(
        ["Participant 0: not in the result → 2, place 1", "Participant 1: 1, place 1 → not in the result"]
    )


async def test_a_title_changed_after_the_end_is_said_not_to_change_the_result(api: Api, visit: Visit) -> None:
    contest = await api.contest(1)
    await contest.end()
    page = await visit(f"/dashboard{contest.path}/edit")
    for label, button in (("Title", "Save the contest"), ("Name of act 1", "Save the acts")):
        await page.get_by_label(label, exact=True).fill("Another")
        await expect(page.locator("#done")).to_be_hidden()
        await press(page, button)
        await expect(page.locator("#done")).to_contain_text("its result keeps the title that people voted for")
        await page.reload()
    wall = await visit(f"/dashboard{contest.path}/wall")
    await expect(wall.locator("#renamed")).to_contain_text("is now called Another")


async def test_deleting_a_contest_with_votes_asks_twice_and_names_them(api: Api, visit: Visit) -> None:
    contest = await api.contest(1, running() | {"title": "Final"})
    await contest.counts_with(await contest.vote(), await contest.vote(voter="v2"))
    page = await visit(f"/dashboard{contest.path}/edit")
    place = page.locator("#deletion")
    await press(place, "Delete the contest")
    await expect(place).to_contain_text("2 votes were cast")
    await press(place, "Delete it with its votes")
    await expect(place).to_contain_text("Really delete “Final”, 2 votes?")
    await press(place, "Keep it")
    assert (await api.client.get(contest.path)).status_code == 200
    await press(place, "Delete the contest", "Delete it with its votes", "Delete for good")
    await expect(page).to_have_url(re.compile("/dashboard$"))
    assert (await api.client.get(contest.path)).status_code == 404


async def test_an_act_whose_answer_is_lost_is_made_once(api: Api, visit: Visit) -> None:
    page = await visit(NEW)
    key = await created(page, "Lost")
    await press(page, "Add an act")
    await page.get_by_label("Name of act 1").fill("Ada")

    async def lose(route: Route) -> None:
        await route.fetch()
        await route.abort()

    await page.route("**/participants", lose, times=1)
    await press(page, "Save the acts")
    await expect(page.locator("#trouble")).to_have_text("The service cannot be reached. Try again.")
    assert len(await acts_of(api, key)) == 1
    await press(page, "Save the acts")
    await expect(page.locator("#unsaved")).to_have_text("")
    assert await titles_of(api, key) == ["Ada"]


async def test_a_refusal_is_shown_and_what_was_filled_in_stays(visit: Visit) -> None:
    page = await visit(NEW)
    await page.get_by_label("Start").fill("2036-05-02T20:00:00")
    await page.get_by_label("End", exact=True).fill("2035-05-02T20:00:00")
    await page.get_by_label("Title", exact=True).fill("Backwards")
    await press(page, "Create the contest")
    await expect(page.locator("#trouble")).to_be_visible()
    await expect(page.get_by_label("Title", exact=True)).to_have_value("Backwards")


async def test_the_list_and_the_contest_s_page_lead_to_it(api: Api, visit: Visit) -> None:
    contest = await api.contest(0, {"title": "Listed", "publish": hours_from_now(-1)})
    page = await visit("/dashboard")
    await expect(page.get_by_role("link", name="New contest")).to_be_visible()
    await page.locator(f'a[href="/dashboard{contest.path}/edit"]').click()
    await expect(page.locator("#heading")).to_have_text("Listed")
    await page.get_by_role("link", name="The contest's page").click()
    await page.get_by_role("link", name="Edit").click()
    await expect(page.locator("#heading")).to_have_text("Listed")


@pytest.mark.parametrize(("size", "language"), [("phone", "de"), ("desk", "en")])
async def test_it_is_sound_at_every_size(api: Api, visit: Visit, size: str, language: str) -> None:
    contest = await api.contest(0, running() | {"title": "Song of the Year, or any other title that is long"})
    for title in ("Aurora Vale", "Ünïcødé " + "long " * 12, "Żubry"):
        await api.participant(contest, title=title)
    dimensions = (SIZES | {"desk": (1920, 1080)})[size]
    page = await visit(f"/dashboard{contest.path}/edit?lang={language}", size=dimensions)
    await expect(page.locator("#acts li")).to_have_count(3)
    await page.locator("#files").set_input_files([file("Picture.png")])
    await expect(page.locator("#acts img")).to_have_count(1)
    await page.locator("summary").click()
    for button in await page.locator("#deletion button, #control button").all():
        await button.click()
    await page.locator("#acts li").first.locator(".buttons button").click()
    await expect(page.locator("#acts li").first.locator(".danger")).to_be_visible()
    await is_sound(page, f"studio-{size}-{language}")
