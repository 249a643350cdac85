"""A page's soundness in a browser: nothing overflows, and axe finds no serious fault, light and dark."""

import os
from pathlib import Path
from typing import Any, Final

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

SIZES: Final = {"phone": (390, 844), "laptop": (1366, 768), "wall": (3840, 2160)}
GRAVE: Final = ("serious", "critical")
ALL_RULES: Final = {"resultTypes": ["violations"]}
OF_COLOURS: Final = ALL_RULES | {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules whose outcome depends on the theme."""
THEMES: Final[dict[str, Any]] = {"light": ALL_RULES, "dark": OF_COLOURS}


async def is_sound(page: Page, name: str) -> None:
    """In both themes; `TALLY_SCREENSHOTS` names a directory for the pictures."""
    for theme, options in THEMES.items():
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        if directory := os.environ.get("TALLY_SCREENSHOTS"):
            await page.screenshot(path=Path(directory) / f"{name}-{theme}.png", full_page="wall" not in name)
        found = await Axe().run(page, options=options)
        faults = [fault for fault in found.response["violations"] if fault["impact"] in GRAVE]
        assert not faults, (theme, found.generate_report())
