"""Updates the demo's screen in the background."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from services.cli.commands.demo.screen import Screen

REDRAW_S: Final = 0.25
LINE_S: Final = 5.0


@asynccontextmanager
async def shown(console: Console, screen: Screen) -> AsyncIterator[None]:
    """Redraw the table every 0.25 s on a terminal, otherwise print a line every 5 s."""

    async def redraw(live: Live) -> None:
        while True:
            live.update(screen.render(console), refresh=True)
            await asyncio.sleep(REDRAW_S)

    async def write() -> None:
        while True:
            await asyncio.sleep(LINE_S)
            console.out(screen.line(), highlight=False)

    if not console.is_terminal:
        task = asyncio.create_task(write())
        try:
            yield
        finally:
            task.cancel()
            console.out(screen.line(), highlight=False)
        return
    with Live(screen.render(console), console=console, auto_refresh=False) as live:
        task = asyncio.create_task(redraw(live))
        try:
            yield
        finally:
            task.cancel()
            screen.phase = "over"
            live.update(screen.render(console), refresh=True)
