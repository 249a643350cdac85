"""The `tally` command line, for operators of the service."""

import gc
import os
import sys
import traceback
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, Final

import typer
from typer import Exit, Option
from typer.core import TyperCommand
from typer.main import get_group

from services.cli.operator_actions import AuditedGroup

COMMANDS: Final = {
    "Run on this machine": {
        "up": "up:up",
        "demo": "demo.command:demo",
        "dashboard": "dashboard:dashboard",
        "serve": "serve:serve",
        "voting-page": "voting_page:voting_page",
    },
    "Watch": {
        "status": "status:status",
        "doctor": "doctor.command:doctor",
        "contests": "contests:app",
        "count": "contests:count",
        "log": "log:log",
        "ask": "ask:app",
    },
    "Results": {
        "void": "void:app",
        "sources": "sources:app",
        "purchases": "purchases:app",
        "reopen": "reopen:reopen",
        "seal": "certificate:seal",
        "unseal": "certificate:unseal",
        "certificate": "certificate:app",
    },
    "Views and log": {
        "verify": "verify:verify",
        "replay": "replay:app",
        "quarantine": "quarantine:app",
        "lost": "lost:app",
        "export": "backup:export",
        "import": "backup:import_export",
    },
    "Access and settings": {
        "keys": "keys:app",
        "secrets": "secrets:app",
        "erase-contest-secret": "contests:erase_secret",
        "wipe": "wipe:wipe",
        "topics": "topics:app",
        "config": "config:app",
    },
}
"""Module and attribute of each command in `commands/`, by the heading under which the help lists it."""


PLACES: Final = {name: (heading, place) for heading, own in COMMANDS.items() for name, place in own.items()}


class AllCommands(AuditedGroup):
    """Imports a command's module when the command is used: importing all of them takes seconds.

    Lists of commands, in the help and for completion by shells, have commands that cannot be called.
    """

    def list_commands(self, _: Any) -> list[str]:
        return list(PLACES)

    def get_command(self, _: Any, name: str) -> Any:
        listed = name in PLACES and TyperCommand(name, help=description(name), rich_help_panel=PLACES[name][0])
        return self.commands.get(name) or listed or None

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in PLACES:
            self.commands[args[0]] = import_command(args[0])
        return super().resolve_command(ctx, args)


def import_command(name: str) -> Any:
    heading, place = PLACES[name]
    module, _, attribute = place.partition(":")
    found = getattr(import_module(f"services.cli.commands.{module}"), attribute)
    holder = typer.Typer()
    if isinstance(found, typer.Typer):
        holder.add_typer(found, name=name, rich_help_panel=heading)
    else:
        holder.command(name, rich_help_panel=heading)(found)
    return get_group(holder).commands[name]


def description(name: str) -> str:
    """Return the function's docstring, or the argument of its `command_group`, without importing the module."""
    module, _, attribute = PLACES[name][1].partition(":")
    source = Path(__file__).parent.joinpath("commands", *module.split(".")).with_suffix(".py").read_text()
    _, function, rest = source.partition(f"def {attribute}(")
    quote = '"""' if function else '"'
    text = (rest if function else source.partition(f"{attribute} = command_group(")[2]).split(quote, 2)[1]
    return " ".join(text.partition("\n\n")[0].split())


app = typer.Typer(
    cls=AllCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tally {version('tallykeeper')}")
        raise Exit


@app.callback()
def tally(
    _: Annotated[
        bool, Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Count votes from an event log. Start with `tally demo` or `tally up`.

    Changes need --execute, except for `keys create`, `keys revoke --now` and `topics create`.
    """


def main() -> None:
    sys.excepthook = _print_redacted
    _remove_link_variables()
    gc.set_threshold(50_000, 20, 20)  # collections took a tenth of the imports
    app()


def _remove_link_variables() -> None:
    """Remove Kubernetes's variables that options would take for settings, such as TALLY_PORT=tcp://10.96.0.7:80."""
    if any("://" in value for name, value in os.environ.items() if name.endswith("_PORT")):
        from libs.telemetry.environment_settings import link_variables  # noqa: PLC0415 (takes 0.2 s)

        for name in link_variables(os.environ):
            del os.environ[name]


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error's traceback without passwords: it may quote an address that contains one."""
    from libs.telemetry.redaction import redacted  # noqa: PLC0415 (takes 0.2 s)

    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
