"""`tally demo`: the command, its options and the order of its acts."""

from pathlib import Path
from typing import Annotated

import typer

from services.cli.commands.demo.scenario import Options, play
from services.cli.discovery import DATA_DIR
from services.cli.runner import run


def demo(
    data_dir: Annotated[
        Path, typer.Option(envvar="TALLY_DATA_DIR", help="As of `tally up`; the demo adds a contest to it.")
    ] = DATA_DIR,
    port: Annotated[
        int, typer.Option(envvar="TALLY_PORT", min=0, max=65535, help="Port of the HTTP front.")
    ] = 8080,
    any_port: Annotated[
        bool, typer.Option("--any-port/--this-port", help="Take a free port where the wished one is in use.")
    ] = True,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin without the data of earlier runs: it is deleted.")
    ] = False,
    seconds: Annotated[float, typer.Option(min=0, help="How long votes come in; 0: until Ctrl-C.")] = 60,
    rate: Annotated[float, typer.Option(min=0.1, max=5000, help="Votes a second.")] = 150,
    voters: Annotated[int, typer.Option(min=1, help="How many signed-in voters there are.")] = 5000,
    keep: Annotated[bool, typer.Option("--keep", help="Stay up when the voting is over, until Ctrl-C.")] = False,
    seed: Annotated[int, typer.Option(help="Of the voters' whims: the same again for the same seed.")] = 1,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open none; a terminal with a display gets one, logged in.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result on one line; progress on stderr.")
    ] = False,
) -> None:
    """Start everything, let voters of all kinds vote in a sample contest, and check the counts at the end.

    Ctrl-C goes straight to the check, a second one stops at once. Exit code 0: counts equal the fold of the log.
    """
    run(play(Options(data_dir, port, any_port, fresh, seconds, rate, voters, keep, seed, as_json, not no_browser)))
