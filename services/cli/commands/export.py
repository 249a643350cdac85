"""`tally export`: writes the logs and secrets of a namespace to files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.exporter import export_logs
from libs.backup.manifest import ExportRefused, Request
from libs.contracts.ndjson_codec import HIDDEN
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import command
from services.cli.operator_actions import record_action
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of records by topic, of secrets, and of uploaded files and pictures."""

    to: Path
    records: dict[str, int]
    secrets: int
    files: int
    began: str
    ended: str | None
    with_secrets: bool = field(metadata=HIDDEN)


def _text(result: Exported) -> Iterator[Block]:
    for kind, count in result.records.items():
        yield f"{kind}: {count:,} records"
    yield f"files and pictures: {result.files:,}"
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
    no_files: Annotated[bool, typer.Option("--no-files", help="Omit uploaded files and pictures.")] = False,
) -> Exported:
    """Write the logs up to their current ends, one NDJSON file per partition; run it again to resume after an
    interruption.

    `tally import` restores the namespace from it, `tally up --restore` starts it on an empty machine. DuckDB and
    its kin read the logs as they are: `FROM read_json('votes-*.ndjson')`.
    """
    request = Request(secrets=not no_secrets, files=not no_files)
    try:
        await record_action(deployment, "exported", secrets=request.secrets, files=request.files)
        manifest = await export_logs(deployment, to, request)
    except ExportRefused as error:
        raise typer.BadParameter(error.message, param_hint="--to") from None
    return Exported(
        to=to,
        records=manifest.records_by_kind,
        secrets=len(manifest.secrets) if request.secrets else 0,
        files=len(manifest.objects),
        began=manifest.began,
        ended=manifest.ended,
        with_secrets=request.secrets,
    )
