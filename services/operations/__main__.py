"""The `tally` command: for whoever runs the service."""

import os
import sys
import traceback
from enum import StrEnum
from types import TracebackType
from typing import Annotated

import typer

from libs.backup import export, import_export
from libs.telemetry.redaction import redacted
from services.operations.acting import AuditedGroup
from services.operations.config import app as config
from services.operations.count import count
from services.operations.dashboard import dashboard
from services.operations.demo import demo
from services.operations.doctor import doctor
from services.operations.erase_secret import erase_secret
from services.operations.keys import app as keys
from services.operations.log import log
from services.operations.purchases import app as purchases
from services.operations.quarantine import app as quarantine
from services.operations.reopen import reopen
from services.operations.replay import app as replay
from services.operations.sealing.certificate import app as certificate
from services.operations.sealing.seal import seal, unseal
from services.operations.secrets import app as secrets
from services.operations.sources import app as sources
from services.operations.status import status
from services.operations.topics import app as topics
from services.operations.up import up
from services.operations.verify import verify
from services.operations.voiding import app as void
from services.operations.wipe import wipe

app = typer.Typer(
    cls=AuditedGroup,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Tallykeeper: event-sourced vote tallying.",
)

for command in (up, demo, dashboard, status, count, log, verify, reopen, seal, unseal, wipe, doctor):
    app.command()(command)
app.command()(export)
app.command("import")(import_export)
app.command("erase-contest-secret")(erase_secret)
app.add_typer(certificate, name="certificate", cls=AuditedGroup)
app.add_typer(config, name="config", cls=AuditedGroup)
app.add_typer(keys, name="keys", cls=AuditedGroup)
app.add_typer(purchases, name="purchases", cls=AuditedGroup)
app.add_typer(quarantine, name="quarantine", cls=AuditedGroup)
app.add_typer(replay, name="replay", cls=AuditedGroup)
app.add_typer(secrets, name="secrets", cls=AuditedGroup)
app.add_typer(sources, name="sources", cls=AuditedGroup)
app.add_typer(topics, name="topics", cls=AuditedGroup)
app.add_typer(void, name="void")


class Service(StrEnum):
    """What can run as a process of its own."""

    GATEWAY = "gateway"
    INGESTION = "ingestion"
    QUERY = "query"
    CATALOGUE = "catalogue"
    DASHBOARD = "dashboard"
    PROJECTOR = "projector"


@app.command()
def serve(
    service: Annotated[Service, typer.Argument(help="Which; its settings come from the environment.")],
) -> None:
    """Run one service in the foreground, against the servers that the settings name."""
    os.execv(sys.executable, [sys.executable, "-m", f"services.{service}"])  # noqa: S606


def main() -> None:
    sys.excepthook = _print_redacted
    app()


def _print_redacted(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A bug's traceback may quote an address with its password."""
    sys.stderr.write(redacted("".join(traceback.format_exception(kind, error, trace))))


if __name__ == "__main__":
    main()
