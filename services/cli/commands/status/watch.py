"""Looking every second, until interrupted."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import nullcontext
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from libs.deployment.deployment import Deployment
from libs.monitoring.problems import as_json
from libs.monitoring.status import Status, moment
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted
from services.cli.commands.status.reader import open_lookout, read_parts
from services.cli.commands.status.render import plain_lines, rendered
from services.cli.runner import print_json

EVERY_S: Final = 1.0

Description = Callable[[], Mapping[str, Any]]
"""Gives stack.json's contents as they are now."""


async def watch(
    stack: Deployment, description: Description, console: Console, *, everything: bool, in_json: bool
) -> None:
    """Redrawn in place on a terminal; elsewhere a block of lines a look, or a line of JSON.

    Servers that are away are said to be, and asked again.
    """
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not in_json else None
    last: RenderableType = Text("")
    with live or nullcontext():
        async for found in _looks(stack, description):
            if live is not None:
                if isinstance(found, Status):
                    last = rendered(found, console, everything=everything)
                live.update(last if isinstance(found, Status) else _dimmed(last, found), refresh=True)
            elif in_json:
                print_json(as_json(found) if isinstance(found, Status) else {"at": _now(), "error": found})
            else:
                lines = plain_lines(found, everything=everything) if isinstance(found, Status) else (_away(found),)
                for line in (*lines, ""):
                    console.out(line)


async def _looks(stack: Deployment, description: Description) -> AsyncIterator[Status | str]:
    """What each look found, or why it found nothing."""
    async with open_lookout(stack) as collector:
        while True:
            began = time.monotonic()
            try:
                yield await collector.look(await read_parts(description()))
            except TallyError as error:
                yield redacted(str(error))
            await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def _dimmed(last: RenderableType, error: str) -> RenderableType:
    return Group(
        Text(_away(error), style="bold red"), Text("What follows is what was read last.\n", style="dim"), last
    )


def _away(error: str) -> str:
    return f"at: {_now()} nothing could be read: {error}"


def _now() -> str | None:
    return moment(time.time_ns() // 1_000_000)
