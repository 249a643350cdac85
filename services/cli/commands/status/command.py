"""`tally status`: shows positions, lag and gates by partition."""

import asyncio
from typing import Annotated

import typer
from rich.console import Console

from libs.local_stack import description
from libs.monitoring.problems import as_json as shown_as_json
from libs.monitoring.problems import problems_of
from services.cli.commands.status.reader import read_status
from services.cli.commands.status.render import plain_lines, rendered
from services.cli.commands.status.watch import watch as watch_until_interrupted
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


def status(
    watch: Annotated[bool, typer.Option("--watch", help="Refresh every second, until Ctrl-C.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Show all partitions, not only those with a problem.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Show the lag of all views, gates (whether votes are accepted), quarantine, and the state of the processes.

    The exit code is 1 if a problem needs an operator; each is printed: a process is dead, or a task of the
    projector stopped or failing; a view is stalled (it has not folded available records for over 10 s), or behind
    the log's end; a gate is shut, or a vote pending for over 10 s; a generation (copy of the views) is broken;
    accepted votes were overruled; records are in quarantine and not dropped. After a restart gates are shut for
    some seconds. A single reading cannot distinguish a stalled view from one that catches up: --watch can. --watch
    ends with 0.

    `lag` is in records; `behind` is the age of the first record not folded yet, by the broker's clock. --json
    shows all partitions, with --watch one line per second.
    """

    async def work() -> ExitCode:
        stack, console = find_deployment(data_dir), Console(highlight=False, markup=False, emoji=False)
        if watch:
            try:
                await watch_until_interrupted(
                    stack,
                    lambda: description.read(data_dir) or {},
                    console,
                    everything=everything,
                    in_json=as_json,
                )
            except asyncio.CancelledError:
                return ExitCode.FINE
        found = await read_status(stack)
        if as_json:
            print_json(shown_as_json(found))
        elif console.is_terminal:
            console.print(rendered(found, console, everything=everything))
        else:
            for line in plain_lines(found, everything=everything):
                console.out(line)
        return ExitCode.PROBLEM if problems_of(found) else ExitCode.FINE

    run(work())
