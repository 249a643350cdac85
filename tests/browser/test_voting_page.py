"""The voting page to copy from: vote, see what is left and when it renews, take a vote back, watch the result."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import Page, Request, Route, expect

from libs.local_stack.supervisor import Supervisor
from services.cli.voting_page.server import serve_voting_page
from tests.browser.contest_pages import press
from tests.support.clients.browser_contexts import Contexts
from tests.support.clients.browser_types import NO_LOOPBACK
from tests.support.clients.soundness import SIZES, is_sound
from tests.support.clients.voting import Api, Contest, hours_from_now, running
from tests.support.eventually import eventually

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "deploy/guides/developer.md").read_text()
README = (ROOT / "libs/client/README.md").read_text()


@pytest.fixture
async def address(stack: Supervisor) -> AsyncIterator[str]:
    async with serve_voting_page(stack.stack) as address:
        yield address


class Visitor:
    """Opens the voting page as a new voter each time."""

    def __init__(self, contexts: Contexts, address: str) -> None:
        self._contexts = contexts
        self.address = address

    async def open(self, path: str, size: str = "laptop") -> Page:
        page = await self._contexts.lend(SIZES[size])
        await page.goto(path if path.startswith("about:") else self.address + path)
        return page


@pytest.fixture
def visitor(address: str, contexts: Contexts) -> Visitor:
    return Visitor(contexts, address)


async def song(api: Api, **config: Any) -> Contest:
    free = {"max_participant": 1, "max_contest": 2}
    contest = await api.contest(
        0, running(free=free, **config) | {"title": "Song of the Year", "description": "Sing"}
    )
    for name in ("Aurora Vale", "Nine Rivers", "Marlow & <Finch>"):
        contest.participants.append(await api.participant(contest, title=name))
    return contest


async def test_a_change_of_the_acts_reaches_open_pages_and_keeps_what_was_filled_in(
    api: Api, visitor: Visitor
) -> None:
    contest = await song(api)
    first, _, third = contest.participants
    rating = await api.contest(2, running() | {"contest_type": "rating"})
    ballot = await api.contest(2, running(ordering={"positions": [{"id": "1"}]}) | {"contest_type": "ordering"})
    page = await visitor.open(f"/?contest={contest.key}")
    rated = await visitor.open(f"/?contest={rating.key}")
    filled = await visitor.open(f"/?contest={ballot.key}")
    names = page.locator("#participants .name strong")
    await expect(names).to_have_text(["Aurora Vale", "Nine Rivers", "Marlow & <Finch>"])
    await rated.locator("input[value='4']").first.check(force=True)
    await filled.get_by_label("1 1 point").select_option(ballot.participants[1])
    await page.get_by_role("button", name="Vote for Nine Rivers").focus()
    assert (await api.client.patch(f"/participants/{first}", json={"title": "Aurora"})).status_code == 200
    for each, order in (
        (contest, [third, first]),
        (rating, rating.participants[::-1]),
        (ballot, ballot.participants[::-1]),
    ):
        assert (await api.client.patch(each.path, json={"running_order": order})).status_code == 200
    await expect(names).to_have_text(["Marlow & <Finch>", "Aurora", "Nine Rivers"])
    await expect(page.get_by_role("button", name="Vote for Nine Rivers")).to_be_focused()
    await press(page, "Vote for Aurora")
    await expect(page.locator("#own li")).to_contain_text("Aurora")
    await expect(rated.locator("#participants .name strong")).to_have_text(["Participant 1", "Participant 0"])
    assert await rated.locator("input:checked").evaluate_all("found => found.map((each) => each.value)") == ["4"]
    options = filled.locator("#positions option")
    await expect(options).to_have_text(["–", "Participant 1", "Participant 0"])
    await expect(filled.locator("#positions select")).to_have_value(ballot.participants[1])


async def test_a_voter_votes_sees_what_is_left_and_takes_a_vote_back(api: Api, visitor: Visitor) -> None:
    contest = await song(api, renew_free_vote={"cooldown": 3600})
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("h1")).to_have_text("Song of the Year")
    await expect(page.locator("#left")).to_contain_text("You have 2 votes left.")
    await press(page, "Vote for Aurora Vale")
    await expect(page.locator("#left")).to_have_text("You have 1 vote left.")
    await expect(page.locator("#renews")).to_contain_text("All renew in 59:")
    await expect(page.get_by_role("button", name="Vote for Aurora Vale", exact=True)).to_be_disabled()
    await expect(page.get_by_role("button", name="Vote for Nine Rivers")).to_be_enabled()
    await expect(page.locator("#participants li").first).to_contain_text("1 vote · place 1")
    await expect(page.locator("#own li")).to_contain_text("Aurora Vale")
    assert "tk_" not in await page.content()
    await is_sound(page, "voting-laptop")
    await page.reload()
    await expect(page.locator("#own li")).to_contain_text("counts")
    await press(page, "Take back your vote for Aurora Vale")
    await expect(page.locator("#own li")).to_contain_text("removed by its voter")
    await expect(page.locator("#participants li").first).to_contain_text("0 votes")
    await expect(page.get_by_role("button", name="Vote for Aurora Vale", exact=True)).to_be_enabled()


async def test_the_votes_of_others_and_the_close_are_shown_live(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("#total")).to_have_text("0 votes in all")
    assert (await contest.vote(2, "another")).status_code == 201
    await expect(page.locator("#total")).to_have_text("1 vote in all")
    await expect(page.locator("#participants li").nth(2)).to_contain_text("Marlow & <Finch>1 vote")
    await expect(page.locator("#no-votes")).to_be_visible()
    button = page.get_by_role("button", name="Vote for Aurora Vale", exact=True)
    await expect(button).to_be_enabled()
    names = page.locator("#participants .name strong")
    await expect(names).to_have_text(["Aurora Vale", "Nine Rivers", "Marlow & <Finch>"])
    await expect(page.locator("#participants .number")).to_have_text(["1", "2", "3"])
    assert (await contest.change(end=hours_from_now(-0.01))).status_code == 200
    await expect(page.locator("#phase")).to_have_text("Closed")
    await expect(names).to_have_text(["Marlow & <Finch>", "Aurora Vale", "Nine Rivers"])
    await expect(page.locator("#participants button")).to_have_count(3)
    for number in range(3):
        await expect(page.locator("#participants button").nth(number)).to_be_hidden()
    await is_sound(page, "voting-result")


async def test_a_refusal_is_said_on_its_act_while_the_page_reads_on(api: Api, visitor: Visitor) -> None:
    contest = await song(api, ip_restriction_per_participant=1)
    for number in range(9):
        await api.participant(contest, title=f"Another {number}")
    first, second = [await visitor.open(f"/?contest={contest.key}", "phone") for _ in range(2)]
    await press(first, "Vote for Aurora Vale")
    await expect(first.locator("#own li")).to_have_count(1)
    async with second.expect_response(lambda answer: answer.url.endswith("/allowance")):
        await press(second, "Vote for Aurora Vale")
    await expect(second.locator("#left")).to_contain_text("You have 2 votes left.")
    note = second.locator("#participants li", has_text="Aurora Vale").locator(".note")
    await expect(note).to_contain_text("ip limit of 1")
    await expect(note).to_be_in_viewport(ratio=1)
    await expect(second.locator("#trouble")).to_be_hidden()
    await press(second, "Vote for Nine Rivers")
    await expect(second.locator("#own li")).to_have_count(1)
    await expect(note).to_contain_text("ip limit of 1")


async def test_a_phone_on_plain_http_votes_in_one_column_and_reads_what_https_would_add(
    api: Api, stack: Supervisor, contexts: Contexts
) -> None:
    """The name is no address of this machine, so the browser gives the page no secure context."""
    contest = await song(api, is_contest_time_shown=True)
    base = urlsplit(stack.stack["base_url"])
    on_lan = stack.stack | {"public_url": f"http://{NO_LOOPBACK}:{base.port}"}
    async with serve_voting_page(on_lan) as address:
        page = await contexts.lend(SIZES["phone"])
        assert urlsplit(address).hostname == NO_LOOPBACK
        await page.goto(f"{address}/?contest={contest.key}")
        await expect(page.locator("#plain")).to_contain_text("HTTPS would prevent")
        assert not await page.evaluate("isSecureContext || 'randomUUID' in crypto")
        await expect(page.locator("#countdown")).to_contain_text("Closes in 59:")
        await press(page, "Vote for Aurora Vale")
        await expect(page.locator("#own li")).to_have_count(1)
        await expect(page.locator("#total")).to_have_text("1 vote in all")
        boxes = [await item.bounding_box() for item in await page.locator("#participants li").all()]
        assert len({box["x"] for box in boxes if box}) == 1
        await is_sound(page, "voting-lan")


async def test_the_rules_are_told_as_they_are(api: Api, visitor: Visitor) -> None:
    for free, text in (
        ({"max_participant": 1, "max_contest": -1}, "You have 1 vote for each."),
        ({"max_participant": -1, "max_contest": -1}, "Vote as often as you like."),
    ):
        contest = await api.contest(1, running(free=free))
        page = await visitor.open(f"/?contest={contest.key}")
        await expect(page.locator("#left")).to_have_text(text)


async def test_a_voter_rates_and_rates_anew(api: Api, visitor: Visitor) -> None:
    sub_rating = {"sub_rating_id": "stage", "title": "Stage", "max_votes": 3}
    rating = {"max_rating": 5, "sub_rating_configs": [sub_rating]}
    contest = await api.contest(2, running(rating=rating) | {"contest_type": "rating"})
    page = await visitor.open(f"/?contest={contest.key}", "phone")
    await expect(page.locator("#left")).to_have_text("A new rating replaces your earlier one.")
    first = page.locator("#participants li").first
    for value, stage in (("2", "3"), ("4", "1")):
        await first.get_by_role("radio", name=value, exact=True).first.check(force=True)
        of_stage = first.get_by_role("group", name="Stage")
        await of_stage.get_by_role("radio", name=stage, exact=True).check(force=True)
        await first.get_by_role("button", name="Rate").click()
        await expect(first).to_contain_text(f"{value} from 1 rating · place 1")
    await expect(page.locator("#own li").first).to_contain_text(": 4")
    await is_sound(page, "voting-rating")
    await page.reload()
    await expect(first.get_by_role("radio", name="4", exact=True)).to_be_checked()


async def test_a_voter_fills_in_a_ballot_with_each_participant_once(api: Api, visitor: Visitor) -> None:
    positions = [{"id": "1", "index": 1, "title": "First", "votes": 3}, {"id": "2", "index": 2, "votes": 1}]
    contest = await api.contest(3, running(ordering={"positions": positions}) | {"contest_type": "ordering"})
    page = await visitor.open(f"/?contest={contest.key}", "phone")
    one, two, _ = contest.participants
    await page.get_by_label("First").select_option(two)
    await expect(page.get_by_label("2 1 point").locator(f'option[value="{two}"]')).to_be_disabled()
    await page.get_by_label("2 1 point").select_option(one)
    await press(page, "Send the ballot")
    await expect(page.locator("#total")).to_have_text("4 points in all")
    await expect(page.locator("#participants li").nth(1)).to_contain_text("3 points · place 1")
    await is_sound(page, "voting-ballot")
    await page.reload()
    await expect(page.get_by_label("First")).to_have_value(two)


async def test_the_developer_s_script_follows_a_result_from_another_origin(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("/")
    await page.route("**/results/stream", lambda route: route.fulfill(status=503), times=1)
    await run_example(page, GUIDE, api, contest, "const show = (...seen) => (window.seen = seen);")
    for votes in (0, 1):

        async def shows(votes: int = votes) -> bool:
            return bool(await page.evaluate("window.seen") == ["running", votes, False])

        await eventually(shows)
        assert (await contest.vote(0, f"voter {votes}")).status_code == 201


async def test_the_first_lines_of_the_clients_readme_vote_in_a_page(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("/")
    defined = """const button = document.querySelector("#sample");
        const show = ({ kind }) => (window.told = kind);
        const draw = (phase, results, isStale) => (window.seen = results?.count);"""
    await run_example(page, README, api, contest, defined)
    await page.locator("#sample").click()

    async def has_voted() -> bool:
        return bool(await page.evaluate("[window.told, window.seen]") == ["accepted", 1])

    await eventually(has_voted)


async def run_example(page: Page, document: str, api: Api, contest: Contest, defined: str) -> None:
    """Run a document's script in a page, with the test's service and contest in place of those of the example."""
    [code] = re.findall(r"^```js\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    code = re.sub(
        r'import (.*) from "./tallykeeper.js";.*', r'const \1 = await import("/page/tallykeeper.js");', code
    )
    base = str(api.client.base_url).rstrip("/")
    for shown, value in (("https://api.example", base), ('"contest"', f'"{contest.key}"')):
        assert shown in code
        code = code.replace(shown, value)
    code = code.replace('"anna"', f'"{contest.participants[0]}"')
    await page.evaluate(f"() => void (async () => {{ {defined} {code} }})()")


async def test_without_a_contest_it_lists_those_that_run_and_makes_a_sample(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("/")
    await page.locator(f'#contests a[href="/?contest={contest.key}"]').click()
    await expect(page.locator("#participants li")).to_have_count(3)
    unknown = await visitor.open("/?contest=none")
    await expect(unknown.locator("#trouble")).to_contain_text("not found")
    page = await visitor.open("/")
    await press(page, "Create a sample contest")
    await expect(page.locator("#participants li")).to_have_count(8, timeout=30_000)
    await press(page, "Vote for Juno Okafor")
    await expect(page.locator("#own li")).to_contain_text("Juno Okafor")
    await expect(page.locator("#renews")).to_contain_text("All renew in ")


def bodies(page: Page) -> list[dict[str, Any]]:
    """Collect the votes that a page sends, from now on."""
    sent: list[dict[str, Any]] = []

    def note(request: Request) -> None:
        if request.method == "POST":
            sent.append(json.loads(request.post_data or ""))

    page.on("request", note)
    return sent


async def test_a_vote_whose_answer_is_lost_is_one_vote(api: Api, visitor: Visitor) -> None:
    contest = await api.contest(2, running(free={"max_participant": 5, "max_contest": 5}))
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("#left")).to_have_text("You have 5 votes left.")
    sent, is_away = bodies(page), True

    async def lose(route: Route) -> None:
        if route.request.method == "POST" and is_away:
            await route.fetch()
            await route.abort()
        else:
            await route.continue_()

    await page.route("**/votes", lose)
    button, note = (
        page.get_by_role("button", name="Vote for Participant 0", exact=True),
        page.locator("#participants .note"),
    )
    await button.click()
    await expect(note.first).to_have_text("Not sent yet. It is sent again by itself.")
    await button.click()
    await page.reload()
    await expect(note.first).to_have_text("Not sent yet. It is sent again by itself.")
    await button.click()
    is_away = False
    await expect(note.first).to_have_text("Voted ✓")
    await expect(page.locator("#own li")).to_have_count(1)
    assert len(sent) > 2
    assert len({vote["vote_id"] for vote in sent}) == 1
    assert (await contest.counts())["count"] == 1
    await button.click()  # another action
    await expect(page.locator("#own li")).to_have_count(2)


async def test_a_phone_whose_clock_is_hours_ahead_waits_by_the_service_s_time(
    api: Api, address: str, contexts: Contexts
) -> None:
    contest = await api.contest(
        1, running(free={"max_participant": 1, "max_contest": -1}, renew_free_vote={"cooldown": 3600})
    )
    page = await contexts.lend(SIZES["phone"], alone=True)
    await page.clock.install(time=datetime.now(UTC) + timedelta(hours=2))
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    await page.goto(f"{address}/?contest={contest.key}")
    await expect(page.locator("#left")).to_have_text("You have 1 vote for each.")
    await press(page, "Vote for Participant 0")
    await expect(page.locator("#renews")).to_contain_text("All renew in ")
    asked.clear()
    await page.clock.run_for(10_000)
    await expect(page.locator("#renews")).to_contain_text("All renew in ")
    assert len([url for url in asked if url.endswith("/allowance")]) < 3


async def test_after_an_error_the_stream_is_opened_again(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("about:blank")
    answered = 0

    async def refuse(route: Route) -> None:
        nonlocal answered
        answered += 1
        if answered <= 2:
            await route.fulfill(status=503, headers={"Access-Control-Allow-Origin": "*"})
        else:
            await route.continue_()

    await page.route("**/results/stream", refuse)
    await page.goto(f"{visitor.address}/?contest={contest.key}")
    await expect(page.locator("#total")).to_have_text("0 votes in all")
    await expect(page.locator("#stale")).to_be_hidden()
    assert (await contest.vote(1, "another")).status_code == 201
    await expect(page.locator("#total")).to_have_text("1 vote in all")


async def test_a_page_that_is_opened_in_an_outage_comes_back(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open("about:blank")
    await page.route("**/public/**", lambda route: route.abort(), times=2)
    await page.goto(f"{visitor.address}/?contest={contest.key}")
    await expect(page.locator("#trouble")).to_contain_text("This page keeps trying.")
    await expect(page.locator("#participants li")).to_have_count(3)
    await expect(page.locator("#trouble")).to_be_hidden()


async def test_an_accepted_vote_is_said_at_once_though_nothing_can_be_read(api: Api, visitor: Visitor) -> None:
    contest = await song(api)
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("#left")).to_have_text("You have 2 votes left.")

    async def lose(route: Route) -> None:
        await (route.abort() if route.request.method == "GET" else route.continue_())

    await page.route("**/contests/**", lose)
    await press(page, "Vote for Nine Rivers")
    note = page.locator("#participants li", has_text="Nine Rivers").locator(".note")
    await expect(note).to_have_text("Voted ✓")
    await expect(page.locator("#own li")).to_have_count(0)


async def test_a_vote_tapped_in_an_outage_is_kept_over_a_reload_and_sent(api: Api, visitor: Visitor) -> None:
    """The page comes back by itself, with the vote and what was read after it."""
    contest = await song(api)
    page = await visitor.open(f"/?contest={contest.key}")
    await expect(page.locator("#left")).to_have_text("You have 2 votes left.")
    is_away = True

    async def lose(route: Route) -> None:
        await (route.abort() if is_away else route.continue_())

    await page.route("**/contests/**", lose)
    await press(page, "Vote for Nine Rivers")
    note = page.locator("#participants li", has_text="Nine Rivers").locator(".note")
    await expect(note).to_have_text("Not sent yet. It is sent again by itself.")
    await page.reload()
    await expect(page.locator("#trouble")).to_contain_text("This page keeps trying.")
    is_away = False
    await expect(note).to_have_text("Voted ✓")
    await expect(page.locator("#own li")).to_have_count(1)
    await expect(page.locator("#left")).to_have_text("You have 1 vote left.")
    await expect(page.locator("#trouble")).to_be_hidden()


async def test_who_has_voted_sees_the_counts_that_others_do_not(api: Api, visitor: Visitor) -> None:
    contest = await song(api, vote_visibility="hidden_until_vote")
    page, other = [await visitor.open(f"/?contest={contest.key}") for _ in range(2)]
    hint = "The counts are shown to those who have voted."
    for each in (page, other):
        await expect(each.locator("#total")).to_have_text(hint)
    await press(page, "Vote for Aurora Vale")
    await expect(page.locator("#total")).to_have_text("1 vote in all")
    await page.reload()
    await expect(page.locator("#total")).to_have_text("1 vote in all")
    await expect(other.locator("#total")).to_have_text(hint)


async def test_the_page_shows_participants_as_the_contest_wants_them(api: Api, visitor: Visitor) -> None:
    contest = await song(api, participant_order="vote_count", share_top_x=1)
    page = await visitor.open(f"/?contest={contest.key}")
    names = page.locator("#participants .name strong")
    await expect(names).to_have_text(["Aurora Vale", "Nine Rivers", "Marlow & <Finch>"])
    assert (await contest.vote(2, "another")).status_code == 201
    await expect(names).to_have_text(["Marlow & <Finch>", "Aurora Vale", "Nine Rivers"])
    await page.get_by_text("Share", exact=True).click()
    shared = f"Song of the Year\n1. Marlow & <Finch>\n{page.url}"
    await expect(page.get_by_label("Text to share")).to_have_value(shared)
    await is_sound(page, "voting-shared")
    many = await api.contest(8, running(is_randomize=True))
    orders = []
    for _ in range(3):
        shuffled = await visitor.open(f"/?contest={many.key}")
        names = shuffled.locator("#participants .name strong")
        await expect(names).to_have_count(8)
        orders.append(await names.all_inner_texts())
        await shuffled.reload()
        await expect(names).to_have_text(orders[-1])
    assert len({tuple(order) for order in orders}) > 1
    hidden = await api.contest(2, running(is_grid_hidden=True))
    page = await visitor.open(f"/?contest={hidden.key}")
    await expect(page.locator("#total")).to_have_text("0 votes in all")
    await expect(page.locator("#participants")).to_be_hidden()
