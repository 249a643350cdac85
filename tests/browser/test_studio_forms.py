"""Forms write what their user changed and nothing else; what somebody else changed stays, or is shown."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from tests.browser.contest_pages import press
from tests.support.clients.browser_types import Visit
from tests.support.clients.soundness import is_sound
from tests.support.clients.voting import Api, Contest, hours_from_now, running
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow
SECOND_HALF_PAST_TWO = "2027-10-31T01:30:00.123456Z"
"""In Berlin 02:30, for the second time that night."""


async def edited(visit: Visit, contest: Contest) -> Page:
    """Open a contest's studio."""
    page = await visit(f"/dashboard{contest.path}/edit")
    await expect(page.locator("#beside")).to_be_visible()
    return page


async def edited_in_berlin(visit: Visit, contest: Contest) -> Page:
    """Open a contest's studio where clocks are set back in October."""
    page = await visit("about:blank", alone=True)
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setTimezoneOverride", {"timezoneId": "Europe/Berlin"})
    await page.goto(f"/dashboard{contest.path}/edit")
    await expect(page.locator("#beside")).to_be_visible()
    return page


async def read(contest: Contest) -> dict[str, Any]:
    found: dict[str, Any] = (await contest.client.get(contest.path)).json()
    return found


async def save(page: Page) -> None:
    await press(page, "Save the contest")
    await expect(page.locator("#done")).to_have_text("Saved.")


async def patches(page: Page) -> list[Any]:
    """Return the bodies that the page has sent, by the lines that it shows."""
    lines = (await page.locator("#sent").text_content() or "").splitlines()
    bodies = [line.partition(" -d '")[2].removesuffix("'") for line in lines if "-X PATCH" in line]
    return [json.loads(body) for body in bodies]


async def test_a_new_title_leaves_times_and_places_as_they_were(api: Api, visit: Visit) -> None:
    """Times to the microsecond, in an hour that occurs twice; and places that the form cannot show."""
    positions = [
        {"id": "gold", "index": 3, "votes": 5, "title": "Gold", "style": {"ink": "#fc0"}},
        {"id": "silver", "index": 2, "votes": 3, "title": "Silver"},
        {"id": "mention", "index": 1, "votes": 0, "title": "Mention"},
    ]
    ordering = {"skin": "list", "positions": positions}
    contest = await api.contest(
        2, running(end=SECOND_HALF_PAST_TWO, ordering=ordering) | {"contest_type": "ordering"}
    )
    before = await read(contest)
    page = await edited_in_berlin(visit, contest)
    await expect(page.get_by_label("Points of the places")).to_have_value("5, 3, 0")
    await page.get_by_label("Title", exact=True).fill("Another")
    await save(page)
    assert await patches(page) == [{"title": "Another"}]
    after = await read(contest)
    assert after["contest_config"] == before["contest_config"]
    assert after["contest_config"]["end"] == SECOND_HALF_PAST_TWO
    await page.get_by_label("Points of the places").fill("6 3 0")
    await save(page)
    after = await read(contest)
    [first, *others] = before["contest_config"]["ordering"]["positions"]
    assert after["contest_config"]["ordering"]["positions"] == [first | {"votes": 6}, *others]
    await press(page, "Save the contest")
    await expect(page.locator("#done")).to_have_text("There is nothing to save.")


async def test_of_a_time_that_occurs_twice_its_user_chooses_one(api: Api, visit: Visit) -> None:
    contest = await api.contest(0, running(end=SECOND_HALF_PAST_TWO))
    page = await edited_in_berlin(visit, contest)
    end = page.locator("input[name=end]").first
    choice = page.locator("label:has(input[name=end]) select").first
    await expect(choice.locator("option:checked")).to_have_text("UTC+1")
    await is_sound(page, "studio-twice")
    await end.fill("2027-10-31T02:40:00")
    await expect(choice.locator("option:checked")).to_have_text("UTC+1")
    await choice.select_option("UTC+2")
    await save(page)
    assert (await read(contest))["contest_config"]["end"] == "2027-10-31T00:40:00.000000Z"
    await end.fill("2027-03-28T02:30:00")
    await press(page, "Save the contest")
    assert await end.evaluate("field => field.validationMessage") != ""
    assert (await read(contest))["contest_config"]["end"] == "2027-10-31T00:40:00.000000Z"
    assert (await contest.change(end=hours_from_now(-0.1))).status_code == 200
    await page.reload()
    again = page.locator("#reopening")
    await again.get_by_label("New end").fill("2027-10-31T02:30:00")
    await again.get_by_label("Before or after clocks are set back").select_option("UTC+1")
    await contest.becomes_final()
    await press(page, "Reopen")
    await expect(page.locator("#phase")).to_have_text("Running")
    assert (await read(contest))["contest_config"]["end"] == "2027-10-31T01:30:00.000000Z"


async def test_what_was_changed_elsewhere_stays_and_hidden_results_stay_hidden(api: Api, visit: Visit) -> None:
    contest = await api.contest(1)
    page = await edited(visit, contest)
    await page.get_by_label("Title", exact=True).fill("Mine")
    end = hours_from_now(5)
    changed = await contest.change(end=end, vote_visibility="hidden_until_end")
    assert changed.status_code == 200
    await save(page)
    after = await read(contest)
    assert after["title"] == "Mine"
    assert after["contest_config"] == changed.json()["contest_config"]
    await expect(page.get_by_label("Counts are seen by the public")).to_have_value("hidden_until_end")
    # a button beside the form writes no more than it says
    await press(page, "Close now", "Close voting")
    await expect(page.locator("#phase")).to_have_text("Finished")
    assert [list(patch) for patch in await patches(page)] == [["title"], ["title"], ["contest_config"]]
    assert list((await patches(page))[-1]["contest_config"]) == ["end"]


async def test_what_two_have_changed_is_shown_member_by_member(api: Api, visit: Visit) -> None:
    contest = await api.contest(1, running() | {"title": "Song"})
    page = await edited(visit, contest)
    title, visible = page.get_by_label("Title", exact=True), page.get_by_label("Counts are seen by the public")
    await title.fill("Mine")
    await visible.select_option("hidden_until_vote")
    await page.get_by_label("Text", exact=True).fill("Only mine")
    path = contest.path
    assert (await api.client.patch(path, json={"title": "Theirs"})).status_code == 200
    assert (await contest.change(vote_visibility="hidden")).status_code == 200
    await press(page, "Save the contest")
    lines = page.locator("#conflict-list li")
    await expect(lines).to_have_count(2)
    await expect(lines.first).to_contain_text("Title Yours: Mine. Theirs: Theirs.")
    await expect(lines.last).to_contain_text("Yours: by those who voted. Theirs: never.")
    assert (await read(contest))["title"] == "Theirs"
    await is_sound(page, "studio-conflict")
    await press(page, "Take theirs: Counts are seen by the public", "Keep mine: Title")
    await expect(page.locator("#conflicts")).to_be_hidden()
    await expect(visible).to_have_value("hidden")
    await save(page)
    after = await read(contest)
    assert (after["title"], after["description"]) == ("Mine", "Only mine")
    assert after["contest_config"]["vote_visibility"] == "hidden"


async def test_acts_that_were_changed_elsewhere_are_not_overwritten(api: Api, visit: Visit) -> None:
    contest = await api.contest(2)
    first, second = contest.participants
    page = await edited(visit, contest)
    names = page.locator("#acts .act-title")
    await expect(names).to_have_count(2)
    await names.first.fill("Mine")
    await page.locator("#acts .act-story").nth(1).fill("A text\nof two lines")
    for key in (first, second):
        assert (await api.client.patch(f"/participants/{key}", json={"title": "Theirs"})).status_code == 200
    await press(page, "Save the acts")
    await expect(page.locator("#conflict-list li")).to_have_text(
        ["Mine: Name Yours: Mine. Theirs: Theirs.Keep mineTake theirs"]
    )
    await expect(names.nth(1)).to_have_value("Theirs")
    read = (await api.client.get(f"/participants/{second}")).json()
    assert (read["title"], read["story"]) == ("Theirs", "A text\nof two lines")
    assert (await api.client.get(f"/participants/{first}")).json()["title"] == "Theirs"
    await press(page, "Keep mine: Mine: Name", "Save the acts")
    await expect(page.locator("#unsaved")).to_have_text("")
    assert (await api.client.get(f"/participants/{first}")).json()["title"] == "Mine"
    # a status that is changed sends no title
    assert (await api.client.patch(f"/participants/{first}", json={"title": "Newer"})).status_code == 200
    await press(page.locator("#acts li").first, "Disqualify", "Disqualify Mine")
    await expect(names.first).to_have_value("Newer")
    await expect(page.locator("#unsaved")).to_have_text("")


async def test_a_pasted_cell_of_two_lines_is_one_act(api: Api, visit: Visit) -> None:
    contest = await api.contest(0)
    page = await edited(visit, contest)
    await page.get_by_label("Paste acts").fill(
        'Ada\t"Norway,\nsince 1990"\n"Weird Al" Yankovic\t"the ""real"" one"'
    )
    await page.get_by_label("Paste acts").blur()
    await press(page, "Save the acts")
    await expect(page.get_by_role("button", name="Disqualify")).to_have_count(2)
    found = (await api.client.get(f"{contest.path}/participants?order=running_number")).json()["data"]
    assert [(act["title"], act["story"]) for act in found] == [
        ("Ada", "Norway,\nsince 1990"),
        ('"Weird Al" Yankovic', 'the "real" one'),
    ]


async def test_a_desk_s_dialog_sends_what_was_edited_in_it(api: Api, visit: Visit) -> None:
    contest = await api.contest(1)
    page = await visit(f"/dashboard{contest.path}")
    show, pressed = f"{contest.path}/show", page.locator("#call-edit")

    async def has_call(**members: Any) -> None:
        async def is_so() -> bool:
            call = (await api.client.get(show)).json()["call_to_vote"]
            return {name: call[name] for name in members} == members

        await eventually(is_so)

    await expect(page.locator("#screens-show")).to_have_text("Screens show the present counts.")
    await press(page, "Call to vote")
    await page.locator("#call-new-text").fill("99 100")
    elsewhere = {"call_to_vote": {"url": "https://vote.example", "text": None, "is_shown": True}}
    assert (await api.client.put(show, json=elsewhere)).status_code == 200
    await expect(pressed).to_have_attribute("aria-pressed", "true")
    await page.locator("#ask-call button[value=yes]").click()
    await has_call(text="99 100", url="https://vote.example", is_shown=True)
    await press(page, "Call to vote")
    await page.locator("#call-new-text").fill("Mine")
    elsewhere["call_to_vote"] |= {"text": "Theirs", "is_shown": False}
    assert (await api.client.put(show, json=elsewhere)).status_code == 200
    await expect(pressed).to_have_attribute("aria-pressed", "false")
    await page.locator("#ask-call button[value=yes]").click()
    await expect(page.locator("#desk-error")).to_contain_text("Another desk has changed the show.")
    await has_call(text="Theirs", is_shown=False)


async def test_a_link_and_a_key_whose_answers_are_lost_are_made_once(api: Api, visit: Visit) -> None:
    contest = await api.contest(1)

    async def lose(route: Route) -> None:
        if route.request.method == "POST":
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    page = await visit(f"/dashboard{contest.path}")
    await page.locator("#links-edit").click()
    await page.route("**/links", lose, times=1)
    await press(page, "Create a link")
    await expect(page.locator("#links-error")).to_have_text("The service cannot be reached. Try again.")
    await press(page, "Create a link")
    await expect(page.locator("#links li")).to_have_count(1)
    page = await visit("/dashboard/keys")
    await page.get_by_label("Name", exact=True).fill("Lost once")
    await page.get_by_label("votes:write").check()
    await page.route("**/keys", lose, times=1)
    await press(page, "Create the key")
    await expect(page.locator("#refused")).to_have_text("The service cannot be reached. Try again.")
    await press(page, "Create the key")
    await expect(page.locator("#refused")).to_contain_text("its text was lost")
    await expect(page.locator("#keys li").filter(has_text="Lost once")).to_have_count(1)
