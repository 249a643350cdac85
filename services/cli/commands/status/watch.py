"""Reads and prints the status every second, until interrupted."""

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
from services.cli.commands.status.reader import open_collector, read_parts
from services.cli.commands.status.render import plain_lines, rendered
from services.cli.runner import print_json

EVERY_S: Final = 1.0

Description = Callable[[], Mapping[str, Any]]
"""Returns the current contents of stack.json."""


async def watch(
    stack: Deployment, description: Description, console: Console, *, everything: bool, in_json: bool
) -> None:
    """Redraw in place on a terminal; otherwise print a block of lines or a line of JSON per reading.

    Unavailable servers are reported and retried.
    """
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not in_json else None
    last: RenderableType = Text("")
    with live or nullcontext():
        async for found in _readings(stack, description):
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


async def _readings(stack: Deployment, description: Description) -> AsyncIterator[Status | str]:
    """Yield each reading's status, or its error."""
    async with open_collector(stack) as collector:
        while True:
            began = time.monotonic()
            try:
                yield await collector.collect(await read_parts(description()))
            except TallyError as error:
                yield redacted(str(error))
            await asyncio.sleep(max(0.0, began + EVERY_S - time.monotonic()))


def _dimmed(last: RenderableType, error: str) -> RenderableType:
    return Group(Text(_away(error), style="bold red"), Text("The last successful reading:\n", style="dim"), last)


def _away(error: str) -> str:
    return f"at: {_now()} nothing could be read: {error}"


def _now() -> str | None:
    return moment(time.time_ns() // 1_000_000)
