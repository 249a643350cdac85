"""The dashboard that `tally up` and `tally demo` open."""

import asyncio
import threading
import webbrowser
from typing import Any

import pytest

from services.cli.commands import dashboard


async def test_nobody_waits_until_the_browser_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    opened, closed = threading.Event(), threading.Event()

    async def ticketed(*_: Any) -> str:
        return "http://127.0.0.1/dashboard#ticket=t"

    def browse(_: str) -> bool:
        opened.set()
        return closed.wait(30)

    monkeypatch.setattr(dashboard, "ticketed", ticketed)
    monkeypatch.setattr(dashboard, "has_display", lambda: True)
    monkeypatch.setattr(webbrowser, "open", browse)
    async with asyncio.timeout(20):
        await dashboard.open_dashboard({})
    assert await asyncio.to_thread(opened.wait, 60)
    closed.set()
