"""Chromium's contexts, used by one test after another: a new one costs more CPU time than most tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from playwright.async_api import Browser, BrowserContext, Error, Page, ViewportSize

IS_REAL = "setTimeout.toString().includes('[native code]')"
"""Return whether the page has the browser's own clock."""


@dataclass
class Contexts:
    """Contexts with one page each, logged out and without stored data when they are lent."""

    chromium: Browser
    base_url: str
    wrong: list[str] = field(default_factory=list)
    """Errors and breaches of the security policy of all pages."""
    _free: list[Page] = field(default_factory=list)
    _lent: dict[Page, bool] = field(default_factory=dict)
    """The pages that tests use now; true for those that no later test may use."""

    async def lend(
        self,
        size: tuple[int, int],
        *,
        alone: bool = False,
        keeps_pages: bool = False,
        permissions: Sequence[str] = (),
        **options: Any,
    ) -> Page:
        """Return a page until `take_back`; `alone` for a context that no later test uses.

        Only a context that `keeps_pages`, and is alone then, runs the pages' worker: a worker's requests are not
        those of a page. `options` are those of `Page.emulate_media`; motion is reduced unless they say otherwise.
        """
        alone = alone or keeps_pages
        page = self._free.pop() if self._free and not alone else await self._new_page(keeps_pages)
        self._lent[page] = alone
        await page.set_viewport_size(ViewportSize(width=size[0], height=size[1]))
        await page.context.grant_permissions(permissions)
        await page.emulate_media(**({"reduced_motion": "reduce", "color_scheme": "light"} | options))
        return page

    async def take_back(self) -> None:
        """Reset all lent contexts, and close those that cannot be used again."""
        for page, alone in self._lent.items():
            is_clean = False
            if not alone:
                with suppress(Error):
                    is_clean = await self._reset(page)
            if is_clean:
                self._free.append(page)
            else:
                await page.context.close()
        self._lent.clear()

    async def _reset(self, page: Page) -> bool:
        """Remove what a test left in a page and its context; return False if something may be left."""
        context = page.context
        if not await page.evaluate(IS_REAL):
            self.wrong.append(f"{page.url}: a test that changes the clock opens its page with `alone=True`")
            return False
        await page.unroute_all(behavior="ignoreErrors")
        await page.evaluate("localStorage.clear()")
        for other in set(context.pages) - {page}:
            await other.close()
        await page.mouse.move(0, 0)
        await page.goto("about:blank")
        await context.set_offline(False)
        await context.clear_cookies()
        await context.clear_permissions()
        session = await context.new_cdp_session(page)
        await session.send("Page.resetNavigationHistory")
        await session.detach()
        return True

    async def _new_page(self, keeps_pages: bool) -> Page:
        context: BrowserContext = await self.chromium.new_context(
            base_url=self.base_url, service_workers="allow" if keeps_pages else "block"
        )
        page = await context.new_page()
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        page.on("console", lambda said: self.wrong.append(said.text) if "Security Policy" in said.text else None)
        return page
