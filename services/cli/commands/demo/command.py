"""`tally demo`: the command and its options."""

from pathlib import Path
from typing import Annotated

import typer

from services.cli.commands.demo.scenario import Options, play
from services.cli.discovery import DATA_DIR
from services.cli.runner import run


def demo(
    data_dir: Annotated[
        Path,
        typer.Option(envvar="TALLY_DATA_DIR", help="Data directory as for `tally up`; the demo adds a contest."),
    ] = DATA_DIR,
    port: Annotated[
        int, typer.Option(envvar="TALLY_PORT", min=0, max=65535, help="HTTP port of the gateway.")
    ] = 8080,
    any_port: Annotated[
        bool, typer.Option("--any-port/--this-port", help="Use any free port if the requested one is in use.")
    ] = True,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data of earlier runs first.")] = False,
    seconds: Annotated[float, typer.Option(min=0, help="Duration of the voting; 0: until Ctrl-C.")] = 60,
    rate: Annotated[float, typer.Option(min=0.1, max=5000, help="Votes per second.")] = 150,
    voters: Annotated[int, typer.Option(min=1, help="Number of signed-in voters.")] = 5000,
    keep: Annotated[bool, typer.Option("--keep", help="Keep running after the voting, until Ctrl-C.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the random votes; the same seed repeats them.")] = 1,
    no_browser: Annotated[
        bool,
        typer.Option(
            "--no-browser",
            help="Open no browser; by default a terminal session with a display opens one, logged in.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as one line of JSON; progress goes to stderr.")
    ] = False,
) -> None:
    """Start everything, simulate voters of all kinds in a sample contest, and check the counts at the end.

    Ctrl-C ends the voting and runs the check, a second one stops at once. Exit code 0: the counts equal those
    computed from the log.
    """
    run(play(Options(data_dir, port, any_port, fresh, seconds, rate, voters, keep, seed, as_json, not no_browser)))
