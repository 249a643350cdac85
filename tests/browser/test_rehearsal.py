"""The rehearsal of a show with twelve acts: two walls, a desk, the studio and two phones share nothing but the
service. After each step the network traffic of walls and phones has nothing that is not due yet."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

import pytest
from playwright.async_api import Page, expect

from libs.local_stack.supervisor import Supervisor
from services.cli.voting_page.server import serve_voting_page
from services.query.show_board import POINTS
from tests.browser.contest_pages import WHOLE, page_of, picture, press, recorded, wall_of
from tests.support.clients.browser_contexts import Contexts
from tests.support.clients.browser_types import Issue, Visit
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.network_traffic import Traffic, contains
from tests.support.clients.soundness import SIZES
from tests.support.clients.voting import Api, Contest, hours_from_now, running

pytestmark = pytest.mark.slow

ACTS: Final = (
    "Aurora Vale",
    "Żubry z Łodzi",
    "Åse Lind",
    "فرقة النجوم",
    "The Copper Lanterns and the Very Long Name That Fills a Line",
    "Nine Rivers",
    "Juno Okafor",
    "Gypsy Jørgensen",
    "Marlow & <Finch>",
    "Die Gebrüder von Hohenstein",
    "Ωmega",
    "Quiet Yōkai",
)
READMITTED: Final = 8
"""The act that is disqualified by mistake, has the most votes, and is first in the end."""
LATE: Final = 5
"""The act that gets votes while the walls are held."""
FIRST: Final = [101_003 + 10_007 * act for act in range(12)]
FIRST[READMITTED] = 905_017
SECRET: Final = [200_017 + 1_013 * ((7 * act) % 12) for act in range(12)]
"""Votes of each act after the counts are hidden, the readmitted one excepted."""


@dataclass
class Audience:
    """Walls and phones by name, and what each has received."""

    pages: dict[str, Page] = field(default_factory=dict)
    traffic: dict[str, Traffic] = field(default_factory=dict)

    @property
    def walls(self) -> list[Page]:
        return [page for name, page in self.pages.items() if name.startswith("wall")]

    @property
    def phones(self) -> list[Page]:
        return [page for name, page in self.pages.items() if name.startswith("phone")]

    async def walls_show(self, part: str, text: str | Sequence[str]) -> None:
        for wall in self.walls:
            await expect(wall.locator(part)).to_have_text(text)

    async def phones_show(self, part: str, text: str | Sequence[str]) -> None:
        for phone in self.phones:
            await expect(phone.locator(part)).to_have_text(text)

    async def lacks(self, numbers: Iterable[int], *kinds: str) -> None:
        """No wall or phone, or none of these kinds, has received any of the numbers."""
        for name, traffic in self.traffic.items():
            if name.startswith(kinds or ("wall", "phone")):
                received = await traffic.settled()
                found = [number for number in numbers if contains(received, number)]
                assert not found, (name, found)

    async def pictures(self, step: str) -> None:
        for name, page in self.pages.items():
            await picture(page, f"rehearsal-{step}-{name}")


@pytest.fixture
async def voting_page(stack: Supervisor) -> AsyncIterator[str]:
    async with serve_voting_page(stack.stack) as address:
        yield address


async def seat(
    api: Api, contest: Contest, reader: str, voting_page: str, visit: Visit, contexts: Contexts
) -> Audience:
    """Open a wall by a session, another one by a link, and two phones."""
    audience = Audience()
    link = (await api.client.post(f"{contest.path}/links", json={"name": "Foyer"})).json()["url"]
    for name, path, key in (("wall-hall", wall_of(contest), reader), ("wall-foyer", link, "")):
        audience.pages[name], audience.traffic[name] = await recorded(visit, path, key=key)
    for number in range(2):
        phone = await contexts.lend(SIZES["phone"])
        name = f"phone-{number}"
        audience.pages[name], audience.traffic[name] = phone, await Traffic.record(phone)
        await phone.goto(f"{voting_page}/?contest={contest.key}")
    return audience


async def give(contest: Contest, votes: dict[int, int], when: str) -> None:
    """Give the acts so many votes each."""
    answers = await asyncio.gather(
        *(contest.vote(act, f"{when} {act}", source="c-paid", count=count) for act, count in votes.items())
    )
    assert {answer.status_code for answer in answers} == {201}, [answer.text for answer in answers]
    await contest.counts_with(*answers)


def in_order(counts: dict[int, int]) -> list[int]:
    return sorted(counts, key=lambda act: -counts[act])


def comes_next(counts: dict[int, int], opened: int) -> str:
    """Return the text for a presenter while so many places are open."""
    order = in_order(counts)
    return f"Next: {len(order) - opened}. {ACTS[order[-1 - opened]]}"


async def reveals(audience: Audience, counts: dict[int, int], opened: int) -> None:
    """The walls show the last places and have received neither the others' counts nor the total."""
    order = in_order(counts)
    names = ["?" if place < len(order) - opened else ACTS[act] for place, act in enumerate(order)]
    await audience.walls_show("#ranking .name", names)
    covered = order[: len(order) - opened]
    await audience.lacks([counts[act] for act in covered] + [sum(counts.values())])
    await audience.lacks([counts[act] for act in order], "phone")


async def test_a_show_with_twelve_acts_reaches_walls_and_phones_only_when_it_is_due(
    api: Api, stack: Supervisor, issue: Issue, voting_page: str, visit: Visit, contexts: Contexts
) -> None:
    body = running(start=hours_from_now(1), end=hours_from_now(3), result_release="by_hand")
    contest = await api.contest(0, body | {"title": "Grand Final"})
    for title in ACTS:
        contest.participants.append(await api.participant(contest, title=title))
    reader = await issue("results:read")
    director = await issue("results:read", "results:read_hidden", "show:control")
    audience = await seat(api, contest, reader.api_key, voting_page, visit, contexts)
    desk = await visit(page_of(contest), key=director.api_key)
    knower = await issue("results:read", "results:read_hidden")
    presenter = await visit(f"{page_of(contest)}?view=presenter", size=(1024, 768), key=knower.api_key)
    studio = await visit(f"{page_of(contest)}/edit")
    disqualified = studio.locator("#acts li").nth(READMITTED)  # its place stays

    # before it opens all see the acts, and nobody is first
    await audience.walls_show("#phase", "Announced")
    await audience.walls_show("#ranking .name", ACTS)
    await audience.phones_show("#phase", "Not open yet")
    await audience.pictures("1-announced")

    # the acts change places after they were saved: walls, phones and presenter follow
    await press(studio, f"Move up: {ACTS[3]}", f"Move down: {ACTS[0]}", "Save the acts")
    await expect(studio.locator("#unsaved")).to_have_text("")
    order = [ACTS[act] for act in (1, 0, 3, 2, *range(4, 12))]
    await audience.walls_show("#ranking .name", order)
    await audience.phones_show("#participants .name strong", order)
    await expect(presenter.locator("#running-order li")).to_have_text(order)
    await picture(presenter, "rehearsal-1-ordered-presenter")
    await audience.pictures("1-ordered")

    # open; the phones vote, and walls and phones show the counts
    await press(studio, "Open now", "Open voting")
    for number, phone in enumerate(audience.phones):
        await expect(phone.locator("#phase")).to_have_text("Open")
        await press(phone, f"Vote for {ACTS[number]}")
        await expect(phone.locator("#own li")).to_have_count(1)
    await give(contest, dict(enumerate(FIRST)), "first")
    counts = {act: votes + (act < len(audience.phones)) for act, votes in enumerate(FIRST)}
    await audience.walls_show("#count", f"{sum(counts.values()):,}")
    await audience.walls_show("#ranking li:first-child .name", ACTS[READMITTED])
    await audience.phones_show("#total", f"{sum(counts.values()):,} votes in all")
    await audience.pictures("2-open")

    # hold: later votes reach the phones, and no wall
    await desk.keyboard.press("h")
    for wall in audience.walls:
        await expect(wall.locator("#held-mark")).to_contain_text("Held at")
    held = sum(counts.values())
    await give(contest, {LATE: 60_013}, "held")
    counts[LATE] += 60_013
    await expect(desk.locator("#count")).to_have_text(f"{sum(counts.values()):,}")
    await audience.phones_show("#total", f"{sum(counts.values()):,} votes in all")
    await audience.walls[0].reload()
    await audience.walls_show("#count", f"{held:,}")
    await audience.lacks([counts[LATE], sum(counts.values())], "wall")
    await audience.pictures("3-held")
    await desk.keyboard.press("l")
    await audience.walls_show("#count", f"{sum(counts.values()):,}")
    await desk.keyboard.press("h")
    for wall in audience.walls:
        await expect(wall.locator("#held-mark")).to_contain_text("Held at")

    # the last votes are secret; the leader is disqualified by mistake
    await studio.get_by_label("Counts are seen by the public").select_option("hidden_until_end")
    await press(studio, "Save the contest")
    await expect(studio.locator("#done")).to_have_text("Saved.")
    for wall in audience.walls:
        await expect(wall.locator("#count")).to_be_hidden()
        await expect(wall.locator("#held-mark")).to_be_hidden()
    await audience.phones_show("#total", "The counts are hidden for now.")
    await press(disqualified, "Disqualify", f"Disqualify {ACTS[READMITTED]}")
    await expect(disqualified.locator(".chip")).to_have_text("Disqualified")
    without = {act: votes + SECRET[act] for act, votes in counts.items() if act != READMITTED}
    await give(contest, {act: SECRET[act] for act in without}, "secret")
    secrets = [*without.values(), sum(without.values()), sum(without.values()) + counts[READMITTED]]
    await expect(desk.locator("#count")).to_have_text(f"{sum(without.values()):,}")
    await audience.walls_show("#ranking .name", [title for title in order if title != ACTS[READMITTED]])
    await audience.lacks(secrets)
    await audience.pictures("4-hidden")

    # close: the result is final, and waits for its release
    await press(studio, "Close now", "Close voting")
    await contest.becomes_final()
    await expect(desk.locator("#hidden-mark")).to_have_text("Hidden from the public until the result is released")
    for phone in audience.phones:
        await expect(phone.locator("#phase")).to_have_text("Closed")
        await phone.reload()
        await expect(phone.locator("#total")).to_have_text("The counts are hidden for now.")
    await audience.lacks(secrets)
    await audience.pictures("5-closed")

    # reveal one by one, while a wall is loaded again and the gateway is killed
    await expect(desk.locator("#finality")).to_have_text("Final")
    await desk.keyboard.press("r")
    await reveals(audience, without, 0)
    await expect(desk.locator("#screens-show")).to_have_text(f"Screens show 0 of {len(without)} places.")
    for opened, key in ((1, "n"), (2, "PageDown"), (3, ""), (4, "n")):
        await expect(presenter.locator("#screens-next")).to_have_text(comes_next(without, opened - 1))
        await presenter.keyboard.press("n")  # it only reads
        await (desk.keyboard.press(key) if key else press(desk, "Next place"))
        await reveals(audience, without, opened)
        if opened == 1:
            # its bar does not show how far a covered place is ahead
            last = audience.walls[0].locator("#ranking li").last
            assert await last.evaluate("item => item.style.getPropertyValue('--part')") == "1"
    await picture(presenter, "rehearsal-6-reveal-presenter")
    await audience.walls[1].reload()
    await reveals(audience, without, 4)
    await audience.pictures("6-reveal")
    await stack.kill("gateway", restart=False)
    for wall in audience.walls:
        await expect(wall.locator("#live")).to_have_attribute("title", "Reconnecting …")
    await reveals(audience, without, 4)
    await audience.pictures("7-killed")
    await stack.restart("gateway")
    for wall in audience.walls:
        await expect(wall.locator("#live")).to_have_attribute("title", "")
    await reveals(audience, without, 4)
    await expect(desk.locator("#live")).to_have_text("Live")
    await desk.keyboard.press("n")
    await reveals(audience, without, 5)

    # the mistake is corrected: reopened, which ends the show, and closed; the reveal begins again
    await press(disqualified, "Admit again", f"Admit {ACTS[READMITTED]}")
    await expect(disqualified.locator(".chip")).to_contain_text("waits for a reopening")
    await expect(desk.locator("#corrections")).to_contain_text(f"{ACTS[READMITTED]} is admitted again, once")
    await reveals(audience, without, 5)
    await studio.get_by_label("New end").fill("2036-05-02T20:00:00")
    await press(studio, "Reopen")
    await expect(studio.locator("#phase")).to_have_text("Running")
    await audience.walls_show("#ranking .name", order)
    await press(studio, "Close now", "Close voting")
    await contest.becomes_final()
    await expect(desk.locator("#finality")).to_have_text("Final")
    await audience.walls_show("#ranking .name", order)
    await audience.pictures("8-corrected")
    final = without | {READMITTED: counts[READMITTED]}
    await desk.keyboard.press("r")
    await audience.walls_show("#ranking .name", ["?"] * len(final))
    await press(desk, "Points")
    await expect(desk.locator("#reveal-points")).to_have_attribute("aria-pressed", "true")
    by_votes = in_order(final)
    due = {*by_votes[-5:], READMITTED}
    for opened in (0, 9, 10, 11, 12):
        if opened:
            await desk.keyboard.press("n")
        names = ["?" if place < 12 - opened else ACTS[act] for place, act in enumerate(by_votes)]
        await audience.walls_show("#ranking .name", names)
        await audience.lacks([final[act] for act in by_votes if act not in due] + [sum(final.values())])
        await audience.lacks([final[act] for act in by_votes if act != READMITTED], "phone")
        if opened == 11:
            await expect(desk.locator("#screens-next")).to_have_text(f"Next: 1. {ACTS[READMITTED]}")
            await audience.pictures("9-last-place")
    await audience.walls_show("#ranking .count", [str(number) for number in (*POINTS, 0, 0)])
    await audience.walls_show("#ranking li.winner .name", ACTS[READMITTED])
    for wall in audience.walls:
        assert await wall.locator(".name").evaluate_all(WHOLE)
    await audience.pictures("10-points")
    await expect(desk.locator("#reveal-next")).to_be_disabled()

    # all counts, which the desk shows only if that is confirmed, and live again, which is without counts
    asked = desk.get_by_role("dialog", name="Show hidden counts?")
    await desk.keyboard.press("a")
    await expect(asked.locator(".primary")).to_have_text("Do not show them")
    await desk.keyboard.press("Enter")
    await expect(asked).to_be_hidden()
    await expect(desk.locator("#live-counts")).to_have_attribute("aria-pressed", "true")
    await expect(desk.locator("#screens-show")).to_have_text("Screens show the participants without counts.")
    await audience.lacks([final[act] for act in by_votes if act not in due] + [sum(final.values())])
    await desk.keyboard.press("a")
    await press(asked, "Show them on all screens")
    await audience.walls_show("#count", f"{sum(final.values()):,}")
    await audience.lacks(secrets, "phone")
    await audience.pictures("11-winner")
    await desk.keyboard.press("l")
    for wall in audience.walls:
        await expect(wall.locator("#count")).to_be_hidden()
        assert f"{sum(final.values()):,}" not in await wall.locator("body").inner_text()

    # release: the phones see what the walls show
    await press(desk, "Release the result", "Release it")
    await expect(desk.locator("#release")).to_be_hidden()
    await expect(desk.locator("#hidden-mark")).to_be_hidden()
    await audience.phones_show("#total", f"{sum(final.values()):,} votes in all")
    await audience.pictures("12-released")

    # seal: the certificate says what the walls show, and nothing on them changes
    assert (await tally(stack, "seal", contest.key, "--execute")).exit_code == 0
    certificate = await tally_json(stack, "certificate", "show", contest.key)
    assert certificate["result"]["count"] == sum(final.values())
    assert [each["title"] for each in certificate["participants"]] == order
    await expect(desk.locator("#finality")).to_have_text("Sealed")
    for wall in audience.walls:
        await wall.reload()
    await audience.walls_show("#ranking li:first-child .name", ACTS[READMITTED])
    await audience.walls_show("#count", f"{sum(final.values()):,}")
    await audience.pictures("13-sealed")
    assert not [
        path
        for name in ("wall-hall", "wall-foyer")
        for path in audience.traffic[name].paths
        if "timeline" in path or "vote_updates" in path
    ]
