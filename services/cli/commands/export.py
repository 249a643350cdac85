"""`tally export`: writes the logs and secrets of a namespace, or an extract of them, to files."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.errors import ExportRefused
from libs.backup.exporter import export_logs
from libs.backup.file_concatenation import PARTS, join
from libs.backup.manifest import Format, Request
from libs.contracts.dataclass_json import HIDDEN
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import OneContest, command, moment
from services.cli.operator_actions import record_action
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Exported:
    """Numbers of records by topic, and of secrets."""

    to: Path
    importable: bool
    records: dict[str, int]
    secrets: int
    began: str
    ended: str | None
    with_secrets: bool = field(metadata=HIDDEN)


def _text(result: Exported) -> Iterator[Block]:
    for kind, count in result.records.items():
        yield f"{kind}: {count:,} records"
    if not result.importable:
        yield f"Written to {result.to}, which cannot be imported."
    elif result.with_secrets:
        yield f"The complete export is in {result.to}, with {result.secrets:,} secrets."
        yield "They reveal who voted for what: only the files' owner may read them."
    else:
        yield f"The export is in {result.to}, without the secrets: `tally import` needs them in the object store."


@command(text=_text)
async def export(
    deployment: Deployment,
    contest: OneContest = None,
    *,
    to: Annotated[
        Path,
        typer.Option("--to", help="A new directory, or one file (x.ndjson, x.parquet) for analysis."),
    ],
    since: Annotated[
        str | None, typer.Option("--from", help="Only records appended at this time or later.")
    ] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only records appended before this time.")] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Format; Parquet is for analysis only. Default: by the file's name."),
    ] = None,
    no_secrets: Annotated[
        bool, typer.Option("--no-secrets", help="Omit the secrets that identify voters.")
    ] = False,
) -> Exported:
    """Write the logs up to their current ends, one file per partition; run it again to resume after an
    interruption.

    Without filters the export is complete and includes the secrets: `tally import` restores the namespace from it.
    Times are like 2026-05-01T18:00:00Z. Uploaded files and images are not included.
    """
    named = {f".{each}": each for each in Format}.get(to.suffix)
    if named and format_ not in (None, named):
        raise typer.BadParameter(f"{to.name} has another format.", param_hint="--format")
    directory = to.with_name(to.name + PARTS) if named else to
    request = Request(
        format=format_ or named or Format.NDJSON,
        contest=contest,
        since=None if since is None else moment(since, "--from"),
        until=None if until is None else moment(until, "--until"),
        secrets=not no_secrets and not named,
    )
    try:
        if named and to.exists():
            raise ExportRefused(f"{to} exists already.")
        await record_action(deployment, "exported", contest=contest, secrets=request.secrets)
        manifest = await export_logs(deployment, directory, request)
        if named:
            join(directory, manifest, to)
    except ExportRefused as error:
        raise typer.BadParameter(error.message, param_hint="--to") from None
    if contest is not None and not manifest.records:
        raise typer.BadParameter(f"No record names contest {contest}.", param_hint="CONTEST")
    return Exported(
        to=to,
        importable=request.is_whole and not named,
        records=manifest.records_by_kind,
        secrets=len(manifest.secrets) if request.secrets else 0,
        began=manifest.began,
        ended=manifest.ended,
        with_secrets=request.secrets,
    )
