"""Runs a stack in the foreground, prints its addresses, and stops it on a signal."""

import asyncio
import json
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from libs.local_stack.errors import Exit, StackError
from libs.local_stack.report import Report
from libs.local_stack.supervisor import Supervisor
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted

SHOWN = (
    ("API", "base_url"),
    ("dashboard", "dashboard_url"),
    ("legacy API", "legacy_base_url"),
    ("legacy test API", "legacy_test_base_url"),
    ("Kafka", "kafka"),
    ("Valkey", "valkey"),
)


async def run(
    supervisor: Supervisor,
    report: Report,
    *,
    as_json: bool = False,
    ready: Callable[[dict[str, Any]], Awaitable[object]] | None = None,
) -> int:
    """Run a stack until SIGINT, SIGTERM or SIGHUP, also while it starts; returns the exit code.

    `ready` is called with the description. Messages go to standard error, the addresses to standard output.
    """
    stop_requested = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop_requested.set)
    starting = asyncio.create_task(supervisor.start())
    stop_waiter = asyncio.create_task(stop_requested.wait())
    try:
        await asyncio.wait((starting, stop_waiter), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            report.line("Stopping ...")
            starting.cancel()
            await asyncio.wait((starting,))
            return 0
        show(starting.result(), supervisor.data_dir, as_json=as_json)
        if ready is not None:
            await ready(starting.result())
        await stop_requested.wait()
        report.line("Stopping ...")
        await supervisor.stop()
        report.line("Stopped.")
        return 0
    except StackError as error:
        report.line(f"Error: {error.message}")
        return int(error.exit_code)
    except TallyError as error:
        report.line(f"Error: {redacted(str(error))}")
        return int(Exit.SERVER_AWAY)
    finally:
        stop_waiter.cancel()
        await supervisor.stop()


def show(stack: dict[str, Any], data_dir: Path, *, as_json: bool) -> None:
    """Print a table on a terminal, otherwise `name: value` lines, and the API key as a line to paste."""
    console = Console(highlight=False, soft_wrap=True)
    if as_json:
        console.out(json.dumps(stack))
        return
    rows = [*((title, redacted(stack[key])) for title, key in SHOWN), ("logs", str(data_dir / "logs"))]
    if console.is_terminal:
        table = Table(show_header=False, title="Tallykeeper is ready", title_justify="left")
        for row in rows:
            table.add_row(*row)
        console.print(table)
    else:
        for title, value in rows:
            console.out(f"{title}: {value}")
    console.out(f"export TALLY_API_KEY={stack['api_key']}")
    if console.is_terminal:
        console.out("Ctrl-C stops it.")
