"""The `tally` command line, for operators of the service."""

import os
import sys
import traceback
from enum import StrEnum
from types import TracebackType
from typing import Annotated

import typer

from libs.telemetry.redaction import redacted
from services.cli.commands.certificate.command import app as certificate
from services.cli.commands.config import app as config
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
from services.cli.commands.sources import app as sources
from services.cli.commands.status.command import status
from services.cli.commands.topics import app as topics
from services.cli.commands.up import up
from services.cli.commands.verify import verify
from services.cli.commands.void import app as void
from services.cli.commands.wipe import wipe
from services.cli.operator import AuditedGroup

app = typer.Typer(
    cls=AuditedGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Tallykeeper: event-sourced vote tallying.",
)

for command in (up, demo, dashboard, status, count, log, verify, reopen, seal, unseal, wipe, doctor, export):
    app.command()(command)
app.command("import")(import_export)
app.command("erase-contest-secret")(erase_secret)
for name, group in {
    "certificate": certificate,
    "config": config,
    "keys": keys,
    "purchases": purchases,
    "quarantine": quarantine,
    "replay": replay,
    "secrets": secrets,
    "sources": sources,
    "topics": topics,
    "void": void,
}.items():
    app.add_typer(group, name=name)


class Service(StrEnum):
    """Services that can run as processes of their own."""

    GATEWAY = "gateway"
    INGESTION = "ingestion"
    QUERY = "query"
    CATALOGUE = "catalogue"
    DASHBOARD = "dashboard"
    PROJECTOR = "projector"


@app.command()
def serve(
    service: Annotated[Service, typer.Argument(help="The service; its settings come from the environment.")],
) -> None:
    """Run one service in the foreground, with the servers given in the settings."""
    os.execv(sys.executable, [sys.executable, "-m", f"services.{service}"])  # noqa: S606


def main() -> None:
    sys.excepthook = _print_redacted
    app()


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print an unexpected error's traceback without passwords: it may quote an address that contains one."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
