"""`tally status`: shows positions, lag and gates by partition."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import typer

from libs.deployment.deployment import Deployment
from libs.local_stack import stack_json
from libs.monitoring.health_problems import problems_of
from services.cli.command_decorator import DataDir, command
from services.cli.commands.status.reader import Reading, Unreadable, read_status, readings
from services.cli.commands.status.render import status_text
from services.cli.deployment_discovery import DATA_DIR


@command(
    text=status_text,
    is_fine=lambda reading: isinstance(reading, Reading) and not problems_of(reading.status),
    redraw="watch",
)
async def status(
    deployment: Deployment,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all partitions, not only those with a problem.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
) -> AsyncGenerator[Reading | Unreadable, None]:
    """Show the lag of all views, whether votes are accepted, quarantine, and the state of the processes.

    The exit code is 1 if a problem needs an operator; each is printed: a process is dead, or a task of the
    projector stopped or failing; a view is stalled (no available record processed for over 10 s), or behind the
    log's end; voting is paused, or a vote pending for over 10 s; a generation (copy of the views) is broken;
    accepted votes were overruled; records are in quarantine and not dropped. After a restart voting is paused for
    some seconds. A single reading cannot distinguish a stalled view from one that catches up: --watch can. --watch
    ends with 0.

    `lag` is in records; `behind` is the age of the first record not processed yet, by the broker's clock. --json
    shows all partitions, with --watch one line per second.
    """
    if not watch:
        yield Reading(await read_status(deployment), everything)
        return
    try:
        async for reading in readings(deployment, lambda: stack_json.read(data_dir) or {}, everything=everything):
            yield reading
    except asyncio.CancelledError:
        raise typer.Exit from None
