"""`tally export`: writes the logs and secrets of a namespace to files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.errors import ExportRefused
from libs.backup.exporter import export_logs
from libs.backup.manifest import Request
from libs.contracts.dataclass_json import HIDDEN
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import command
from services.cli.operator_actions import record_action
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of records by topic, and of secrets."""

    to: Path
    records: dict[str, int]
    secrets: int
    began: str
    ended: str | None
    with_secrets: bool = field(metadata=HIDDEN)


def _text(result: Exported) -> Iterator[Block]:
    for kind, count in result.records.items():
        yield f"{kind}: {count:,} records"
    if result.with_secrets:
        yield f"The complete export is in {result.to}, with {result.secrets:,} secrets."
        yield "They reveal who voted for what: only the files' owner may read them."
    else:
        yield f"The export is in {result.to}, without the secrets: `tally import` needs them in the object store."


@command(text=_text)
async def export(
    deployment: Deployment,
    *,
    to: Annotated[Path, typer.Option("--to", help="A new directory.")],
    no_secrets: Annotated[
        bool, typer.Option("--no-secrets", help="Omit the secrets that identify voters.")
    ] = False,
) -> Exported:
    """Write the logs up to their current ends, one NDJSON file per partition; run it again to resume after an
    interruption.

    `tally import` restores the namespace from it. Uploaded files and images are not included. DuckDB and its kin
    read the files as they are: `FROM read_json('votes-*.ndjson')`.
    """
    request = Request(secrets=not no_secrets)
    try:
        await record_action(deployment, "exported", secrets=request.secrets)
        manifest = await export_logs(deployment, to, request)
    except ExportRefused as error:
        raise typer.BadParameter(error.message, param_hint="--to") from None
    return Exported(
        to=to,
        records=manifest.records_by_kind,
        secrets=len(manifest.secrets) if request.secrets else 0,
        began=manifest.began,
        ended=manifest.ended,
        with_secrets=request.secrets,
    )
