"""Runs a stack in the foreground, prints its addresses, and stops it on a signal."""

import asyncio
import json
import shlex
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from libs.local_stack.errors import Exit, StackError
from libs.local_stack.startup_report import Report
from libs.local_stack.supervisor import Supervisor
from libs.tally.errors import TallyError
from libs.telemetry.redaction import redacted


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
    """Print the addresses that matter, lines to paste into another terminal, and the next steps."""
    console = Console(highlight=False, soft_wrap=True)
    if as_json:
        console.out(json.dumps(stack))
        return
    base = redacted(stack["base_url"])
    console.out("Tallykeeper is ready. Ctrl-C stops it.\n")
    console.out(f"  dashboard   {redacted(stack['dashboard_url'])}   (`tally dashboard` opens it, logged in)")
    console.out(f"  API         {base}")
    console.out(f"  reference   {base}/docs\n")
    console.out("Paste these lines into another terminal:\n")
    console.out(f"export TALLY_URL={base}")
    console.out(f"export TALLY_API_KEY={stack['api_key']}")
    console.out(f"export TALLY_DATA_DIR={shlex.quote(str(data_dir.absolute()))}")
    console.out(f"export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH\n")
    console.out("Then cast a vote as in README.md, list commands with `tally --help`, or see `tally status`.")
    console.out(f"Logs: {data_dir / 'logs'}. Addresses of Kafka and Valkey: {data_dir / 'stack.json'}.")
