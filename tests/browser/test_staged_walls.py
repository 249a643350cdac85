"""What an audience sees on a wall: in every layout and orientation, with few and many acts, in a reveal, after the
end, and when the service is away."""

from functools import partial
from itertools import product
from typing import Any, Final

import pytest
from PIL import ImageChops
from playwright.async_api import Page, expect

from tests.browser.contest_pages import HALL, IN_SIGHT, WHOLE, picture, pixels
from tests.browser.staged_walls import Scene, Stage, direct, resize
from tests.support.eventually import eventually

NAMES: Final = ("Żubry", "Åse Ødegård", "Jalapeño gypsy", "عُمَر الخيّام", "Ģirts Ķēniņš", "Ắnh Nguyễn")
LONG: Final = (
    "Die Gebrüder von Hohenstein-Wolfenbüttel und so weiter",
    "عُمَر الخيّام وفرقته الموسيقية الكبيرة",
    "The Copper Lanterns and the Very Long Name That Fills a Line",
    "Juno Okafor",
)
TITLE: Final = (
    "Fjörður Żółć بَهِيّة: the Song of the Year, with Ångström, gypsy jazz, żubry, and all that is needed to fill two"
)
"""A title of 120 letters, some of which rise and fall far."""
LAYOUTS: Final = ("ranking", "bars", "lower-third", "countdown", "call", "winner")
UPRIGHT: Final = (1080, 1920)
SCREENS: Final = (HALL, UPRIGHT, (390, 844))
ADOPT: Final = """text => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [sheet];
}"""
"""Add a style sheet, which the page's security policy allows a script."""
STILL: Final = ".stage .time { visibility: hidden; }"
UNCLIPPED: Final = """
.name, h1, .figure, .beside, #call-text, #message {
  overflow: visible !important;
  -webkit-line-clamp: none !important;
}
"""
FEET: Final = "pillars => new Set(pillars.map((pillar) => Math.round(pillar.getBoundingClientRect().bottom))).size"


def acts(number: int, names: tuple[str, ...] = NAMES, least: int = 100_003) -> list[tuple[str, int]]:
    """Return so many acts, the last one with the fewest votes."""
    return [(names[at % len(names)], least + 1_009 * (number - at)) for at in range(number)]


async def is_whole(page: Page) -> bool:
    """Return whether nothing more is to be seen without clipping."""
    taken = []
    for style in (STILL, STILL + UNCLIPPED):
        await page.evaluate(ADOPT, style)
        taken.append((await pixels(page)).convert("RGB"))
    return ImageChops.difference(*taken).getbbox() is None


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_no_letter_is_cut_in_any_layout(stage: Stage, layout: str) -> None:
    call = {"is_shown": True, "text": "Żagłę.example", "url": "https://vote.example"}
    show = {"call_to_vote": call, "message": "Żeby głosować: jęczmień, Ångström, قُبّة"}
    phase = "finished" if layout == "winner" else "running"
    assert len(TITLE) >= 110
    scene = Scene(acts(6), title=TITLE, phase=phase, show=show)
    page = await stage.wall(scene, HALL, layout=layout, hide="countdown-rate")
    await page.wait_for_function("() => document.getElementById('call-code').naturalWidth > 0")
    for size in SCREENS:
        await resize(page, size)
        await eventually(partial(is_whole, page))
        await page.evaluate(ADOPT, "")
        await picture(page, f"{layout}-{size[0]}x{size[1]}")
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("layout", ["ranking", "bars", "lower-third"])
async def test_long_names_and_large_figures_have_smaller_letters(stage: Stage, layout: str) -> None:
    pages = {
        number: await stage.wall(Scene(acts(number, LONG, 999_983)), HALL, layout=layout) for number in (12, 40)
    }
    for size, (number, page) in product(SCREENS, pages.items()):
        await resize(page, size)
        await expect(page.locator(".name").first).to_be_visible()
        await eventually(partial(page.locator(".name, .stage .figure").evaluate_all, WHOLE))
        await picture(page, f"long-{layout}-{number}-{size[0]}x{size[1]}")


async def test_20_acts_are_on_one_page(stage: Stage) -> None:
    show = {"message": "Voting ends at nine"}
    for size in (HALL, UPRIGHT):
        page = await stage.wall(Scene(acts(20, LONG), show=show), size)
        await expect(page.locator("#ranking li")).to_have_count(20)
        await eventually(partial(page.locator("#ranking li").evaluate_all, IN_SIGHT))
        await expect(page.locator("#page")).to_be_hidden()


async def test_a_small_screen_turns_pages_and_a_phone_scrolls(stage: Stage) -> None:
    page = await stage.wall(Scene(acts(24, LONG)), (1024, 600))
    await expect(page.locator("#page")).to_have_text("1 of 2")
    await eventually(partial(page.locator("#ranking li").evaluate_all, IN_SIGHT))
    await eventually(partial(page.evaluate, "document.documentElement.scrollHeight <= innerHeight"))
    for size in ((683, 384), (390, 844)):
        page = await stage.wall(Scene(acts(24, LONG)), size)
        await expect(page.locator("#ranking li")).to_have_count(24)
        await eventually(partial(page.evaluate, "document.documentElement.scrollWidth <= innerWidth"))


@pytest.mark.parametrize(
    ("layout", "rows"), [("ranking", "#ranking li"), ("bars", ".column"), ("lower-third", ".entry")]
)
async def test_a_reveal_shows_the_place_that_is_being_opened_at_any_time(
    stage: Stage, layout: str, rows: str
) -> None:
    tied = [*acts(39), ("Tied with the last", acts(39)[-1][1])]
    for size in (HALL, UPRIGHT):
        page = await stage.wall(Scene(tied, phase="finished", state="reveal"), size, layout=layout)
        for revealed in (1, 20, 39):
            await direct(page, Scene(tied, phase="finished", state="reveal", revealed=revealed))
            opened = page.locator(f"{rows}:not(.covered) .name").filter(has_not_text="?").first
            names = [name for name, _ in tied]
            await expect(opened).to_have_text(names[39 - revealed])
            await expect(opened).to_be_in_viewport()
            await expect(page.locator("#page")).to_be_hidden()
        await picture(page, f"revealed-{layout}-{size[0]}x{size[1]}")


async def test_bars_stand_on_one_line_and_say_that_there_are_more(stage: Stage) -> None:
    for size, number in product((HALL, UPRIGHT), (2, 12, 40)):
        page = await stage.wall(Scene(acts(number, LONG)), size, layout="bars")
        assert await page.locator(".pillar").evaluate_all(FEET) == 1
        shown = await page.locator(".column").count()
        if number <= 12:
            assert shown == number
            await expect(page.locator("#page")).to_be_hidden()
        else:
            await expect(page.locator("#page")).to_have_text(f"1 of {-(-number // shown)}")
        await picture(page, f"bars-{number}-{size[0]}x{size[1]}")


async def test_a_wall_without_the_service_keeps_its_picture_and_says_nothing(stage: Stage) -> None:
    scenes: list[dict[str, Any]] = [
        {},
        {"state": "held"},
        {"state": "reveal", "revealed": 3, "phase": "finished"},
        {"shows_counts": False},
    ]
    for scene in scenes:
        page = await stage.wall(Scene(acts(12), **scene), HALL, hide="countdown-rate")
        await expect(page.locator(".name").first).to_be_visible()
        await page.evaluate(ADOPT, ".state { visibility: hidden; }")
        before = await pixels(page)
        await page.evaluate("cut()")
        mark = page.locator("#live")
        await expect(mark).to_contain_class("away")
        await expect(mark).to_have_text("")
        await expect(mark).to_have_attribute("title", "Reconnecting …")
        assert ImageChops.difference(before, await pixels(page)).getbbox() is None
        await page.evaluate(ADOPT, "")
        await picture(page, f"away-{scene.get('state', 'live')}")


async def test_a_wall_whose_counts_stand_still_has_a_small_mark(stage: Stage) -> None:
    page = await stage.wall(Scene(acts(2), standing={"is_counting": False}), HALL)
    await expect(page.locator("#live")).to_have_text("")
    await expect(page.locator("#live")).to_have_attribute("title", "Counting stands still")


async def test_what_says_nothing_is_gone_after_the_end(stage: Stage) -> None:
    for size in (HALL, UPRIGHT):
        page = await stage.wall(Scene(acts(12), anonymous=0), size)
        await expect(page.locator("#rate-panel")).to_be_visible()
        await direct(page, Scene(acts(12), phase="finished", anonymous=0))
        await expect(page.locator("#finality")).to_have_text("Final")
        await expect(page.locator("#figures > :visible")).to_have_count(3)
        await expect(page.locator("#rate-panel")).to_be_hidden()
        await expect(page.locator("#anonymous-panel")).to_be_hidden()
        await picture(page, f"final-{size[0]}x{size[1]}")


async def test_a_final_wall_says_which_titles_have_changed(stage: Stage) -> None:
    changed = [
        {"participant_key": None, "member": "title", "before": "Song of the Year", "after": "Song of 2027"},
        {"participant_key": "2", "member": "title", "before": NAMES[1], "after": "Åse"},
        {"participant_key": "1", "member": "status", "before": "approved", "after": "rejected"},
    ]
    for layout in ("ranking", "bars", "winner"):
        page = await stage.wall(
            Scene(acts(3), phase="finished", details={"corrections": changed}), HALL, layout=layout
        )
        await expect(page.locator("#renamed")).to_have_text(
            f"Song of the Year is now called Song of 2027 · {NAMES[1]} is now called Åse"
        )
        await expect(page.locator("#contest-title")).to_have_text("Song of the Year")
        await picture(page, f"renamed-{layout}")


async def test_a_wall_shows_the_numbers_of_the_acts(stage: Stage) -> None:
    for layout, face in (("ranking", "#ranking .face"), ("bars", ".column .face"), ("winner", ".best .face")):
        page = await stage.wall(Scene(acts(3), phase="finished"), HALL, layout=layout)
        await expect(page.locator(face).first).to_have_attribute("data-number", "1")
        content = "face => getComputedStyle(face, '::after').content"
        assert "1" in await page.locator(face).first.evaluate(content)
        await picture(page, f"numbers-{layout}")
        page = await stage.wall(Scene(acts(3), phase="finished"), HALL, layout=layout, hide="numbers")
        assert (
            await page.locator(face).first.evaluate("face => getComputedStyle(face, '::after').display") == "none"
        )
