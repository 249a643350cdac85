"""The `tally` command line, for operators of the service."""

import gc
import os
import sys
import traceback
from importlib.metadata import version
from types import TracebackType
from typing import Annotated, Any, Final, cast

import typer

from services.cli.lazy_commands import LazyCommands
from services.cli.operator_actions import AuditedGroup

COMMANDS: Final = {
    "Run on this machine": {
        "up": "up:up",
        "demo": "demo.command:demo",
        "dashboard": "dashboard:dashboard",
        "serve": "serve:serve",
    },
    "Watch": {
        "status": "status:status",
        "doctor": "doctor.command:doctor",
        "contests": "contests:contests",
        "count": "count:count",
        "log": "log:log",
    },
    "Results": {
        "void": "void.command:app",
        "sources": "sources:app",
        "purchases": "purchases:app",
        "reopen": "reopen:reopen",
        "seal": "seal:seal",
        "unseal": "seal:unseal",
        "certificate": "certificate:app",
    },
    "Views and log": {
        "verify": "verify:verify",
        "replay": "replay:app",
        "quarantine": "quarantine.command:app",
        "export": "export:export",
        "import": "import_:import_export",
    },
    "Access and settings": {
        "keys": "keys:app",
        "secrets": "secrets:app",
        "erase-contest-secret": "erase_contest_secret:erase_secret",
        "wipe": "wipe:wipe",
        "topics": "topics:app",
        "config": "config:app",
    },
}
"""Module and attribute of each command in `commands/`, by the heading under which the help lists it."""


class AllCommands(AuditedGroup):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._commands = LazyCommands("services.cli.commands", COMMANDS)
        self.commands = cast(Any, self._commands)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        with self._commands.listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._commands.listing():
            return super().shell_complete(ctx, incomplete)


app = typer.Typer(
    cls=AllCommands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tally {version('tallykeeper')}")
        raise typer.Exit


@app.callback()
def tally(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Count votes from an event log. Changes need --execute. Start with `tally demo` or `tally up`."""


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
