"""The `tally` command line, for operators of the service."""

import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from types import TracebackType
from typing import Annotated, Final

import typer

from libs.telemetry.redaction import redacted
from services.cli.commands.certificate.command import app as certificate
from services.cli.commands.config import app as config
from services.cli.commands.contests import contests
from services.cli.commands.count import count
from services.cli.commands.dashboard import dashboard
from services.cli.commands.demo.command import demo
from services.cli.commands.doctor.command import doctor
from services.cli.commands.erase_contest_secret import erase_secret
from services.cli.commands.export import export
from services.cli.commands.import_ import import_export
from services.cli.commands.keys import app as keys
from services.cli.commands.log.command import log
from services.cli.commands.purchases import app as purchases
from services.cli.commands.quarantine import app as quarantine
from services.cli.commands.reopen import reopen
from services.cli.commands.replay import app as replay
from services.cli.commands.seal import seal, unseal
from services.cli.commands.secrets import app as secrets
from services.cli.commands.serve import serve
from services.cli.commands.sources import app as sources
from services.cli.commands.status.command import status
from services.cli.commands.topics import app as topics
from services.cli.commands.up import up
from services.cli.commands.verify import verify
from services.cli.commands.void import app as void
from services.cli.commands.wipe import wipe
from services.cli.operator_actions import AuditedGroup

app = typer.Typer(
    cls=AuditedGroup,
    no_args_is_help=True,
    add_completion=False,
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


COMMANDS: Final[dict[str, dict[str, Callable[..., None] | typer.Typer]]] = {
    "Run on this machine": {"up": up, "demo": demo, "dashboard": dashboard, "serve": serve},
    "Watch": {"status": status, "doctor": doctor, "contests": contests, "count": count, "log": log},
    "Results": {
        "void": void,
        "sources": sources,
        "purchases": purchases,
        "reopen": reopen,
        "seal": seal,
        "unseal": unseal,
        "certificate": certificate,
    },
    "Views and log": {
        "verify": verify,
        "replay": replay,
        "quarantine": quarantine,
        "export": export,
        "import": import_export,
    },
    "Access and settings": {
        "keys": keys,
        "secrets": secrets,
        "erase-contest-secret": erase_secret,
        "wipe": wipe,
        "topics": topics,
        "config": config,
    },
}
"""Commands by the heading under which the help lists them."""

for heading, commands in COMMANDS.items():
    for name, command in commands.items():
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name, rich_help_panel=heading)
        else:
            app.command(name, rich_help_panel=heading)(command)


def main() -> None:
    sys.excepthook = _print_redacted
    app()


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error's traceback without passwords: it may quote an address that contains one."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
