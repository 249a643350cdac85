"""Walls without a service: the product's pages, which receive the events that a test makes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Self

import httpx
import orjson
from playwright.async_api import Browser, BrowserContext, Page, Route
from starlette.applications import Starlette

from services.dashboard.pages import page_routes

ORIGIN: Final = "https://stage.example"
WALL: Final = "/dashboard/contests/final/wall"
STREAM: Final = """
const real = window.fetch;
const bytes = (events) => new TextEncoder().encode(
  events.map(([name, data]) => `event: ${name}\\ndata: ${JSON.stringify(data)}\\n\\n`).join(""));
let [open, isAway] = [null, false];
window.fetch = (path, options) => {
  if (!path.endsWith("/show/stream")) return real(path, options);
  if (isAway) return Promise.reject(new TypeError("away"));
  const start = (stream) => { open = stream; stream.enqueue(bytes(scene)); };
  return Promise.resolve(new Response(new ReadableStream({ start })));
};
window.direct = (events) => open.enqueue(bytes(events));
window.cut = () => { isAway = true; open.error(new TypeError("away")); };
"""
"""A stream that sends a scene's events and stays open, in place of the service's; `direct` sends further ones, and
`cut` ends it."""
CODE: Final = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="160" height="160"><rect width="160" height="160"/></svg>'
)
"""In place of a QR code."""


@dataclass(frozen=True)
class Scene:
    """What a show's stream sends: acts with their votes, and the state of contest and show."""

    acts: Sequence[tuple[str, int]]
    title: str = "Song of the Year"
    phase: str = "running"
    state: str = "live"
    revealed: int = 0
    """The places that a reveal has opened."""
    shows_counts: bool = True
    anonymous: int = 3
    show: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    standing: dict[str, Any] = field(default_factory=dict)

    @property
    def events(self) -> list[tuple[str, dict[str, Any]]]:
        now = datetime.now(UTC)
        show = {
            "state": self.state,
            "message": None,
            "call_to_vote": {"is_shown": False},
            "revealed": 0,
        } | self.show
        standing = {
            "phase": self.phase,
            "start": (now - timedelta(hours=1)).isoformat(),
            "end": (now + timedelta(hours=-1 if self.phase == "finished" else 1)).isoformat(),
            "server_time": now.isoformat(),
            "hidden": not self.shows_counts,
            "is_counting": True,
            "show": show,
        }
        people = {
            str(number): {"title": name, "running_number": number, "number_string": str(number)}
            for number, (name, _) in enumerate(self.acts, start=1)
        }
        details = {"title": self.title, "running_order": list(people), "participants": people} | self.details
        board = [("board", self._board(now))] if self.shows_counts else []
        return [("phase", standing | self.standing), ("details", details), *board]

    def _board(self, now: datetime) -> dict[str, Any]:
        counts = {str(number): votes for number, (_, votes) in enumerate(self.acts, start=1)}
        order = sorted(counts, key=lambda key: -counts[key])
        ranks = {key: 1 + sum(other > counts[key] for other in counts.values()) for key in order}
        from_last = sorted({*ranks.values()}, reverse=True)
        is_reveal = self.state == "reveal"
        opened = set(from_last[: self.revealed]) if is_reveal else set(from_last)
        shown = [key for key in order if ranks[key] in opened]
        covered = len(order) - len(shown)
        total = sum(counts.values())
        return {
            "contest_type": "voteonly",
            "held_at": now.isoformat() if self.state in {"held", "reveal"} else None,
            "final": self.phase == "finished",
            "count": None if covered else total,
            "unique_voter_count": total,
            "anonymous_voter_count": self.anonymous,
            "covered": covered,
            "participants": [{"participant_key": key, "rank": ranks[key], "count": counts[key]} for key in shown],
        }


class Stage:
    """Opens walls in contexts of their own."""

    def __init__(self, chromium: Browser) -> None:
        self._chromium = chromium
        transport = httpx.ASGITransport(Starlette(routes=page_routes()))
        self._service = httpx.AsyncClient(transport=transport, base_url=ORIGIN)
        self._contexts: list[BrowserContext] = []
        self._errors: list[str] = []

    async def wall(self, scene: Scene, size: tuple[int, int], **parameters: str) -> Page:
        """Open a wall that shows the scene; parameters are those of its address."""
        context = await self._chromium.new_context(
            viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce", service_workers="block"
        )
        self._contexts.append(context)
        await context.route("**/*", self._answer)
        page = await context.new_page()
        page.on("pageerror", lambda error: self._errors.append(f"{page.url}: {error}"))
        await page.add_init_script(f"let scene = {orjson.dumps(scene.events).decode()};\n{STREAM}")
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        await page.goto(f"{ORIGIN}{WALL}?{query}")
        await page.wait_for_function("() => !document.body.classList.contains('unknown')")
        return page

    async def _answer(self, route: Route) -> None:
        if "/code.svg" in route.request.url:
            await route.fulfill(body=CODE, content_type="image/svg+xml")
            return
        answer = await self._service.get(route.request.url)
        await route.fulfill(status=answer.status_code, headers=dict(answer.headers), body=answer.content)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for context in self._contexts:
            await context.close()
        assert not self._errors


async def resize(page: Page, size: tuple[int, int]) -> None:
    await page.set_viewport_size({"width": size[0], "height": size[1]})


async def direct(page: Page, scene: Scene) -> None:
    """Send the events of another scene."""
    await page.evaluate("events => direct(events)", scene.events)
