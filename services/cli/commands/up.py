"""`tally up`: the whole service on this machine, in the foreground."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from libs.local_stack import foreground
from libs.local_stack.report import Report
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap as prepare
from services.cli.commands.dashboard import open_dashboard


def up(
    port: Annotated[
        int, typer.Option(envvar="TALLY_PORT", min=0, max=65535, help="Port of the HTTP front.")
    ] = 8080,
    data_dir: Annotated[
        Path, typer.Option(envvar="TALLY_DATA_DIR", help="Where data and logs are kept from run to run.")
    ] = Path(".tally"),
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Begin without the data of earlier runs: it is deleted.")
    ] = False,
    any_port: Annotated[
        bool, typer.Option("--any-port", help="Take a free port where the wished one is in use.")
    ] = False,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open none; a terminal with a display gets one, logged in.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print stack.json's contents, on one line, when ready.")
    ] = False,
) -> None:
    """Start everything on this machine and stay in the foreground; Ctrl-C stops it cleanly."""
    report = Report()
    ready = open_dashboard if not no_browser and sys.stdout.isatty() else None
    supervisor = Supervisor(
        StackSettings(data_dir=data_dir), prepare, port=port, any_port=any_port, fresh=fresh, report=report
    )
    raise typer.Exit(asyncio.run(foreground.run(supervisor, report, as_json=as_json, ready=ready)))
