"""`tally status`: positions, lag and gates, partition by partition."""

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
    watch: Annotated[bool, typer.Option("--watch", help="Look every second, until Ctrl-C.")] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Every partition, not only the remarkable ones.")
    ] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """How far every fold is, whether votes are taken, what was set aside, and whether the parts live.

    Ends with 1 when somebody has to see to something, and says to what: a part is dead, or a task of the projector
    stopped or failing; a view is stalled (the log has had more for it for over 10 s), or behind the log's end; a
    gate is shut, or a vote pending for over 10 s; a generation is broken; accepted votes were overruled; records
    are in quarantine and not dropped. After a restart gates are shut for some seconds. One look cannot tell a view
    that stands from one that catches up: --watch can. It ends with 0.

    What is behind: `lag` in records, `behind` since when the first of them has been in the log, by its broker's
    clock. With --json all partitions are shown, of --watch one line a second.
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
