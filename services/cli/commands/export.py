"""`tally export`: writes the logs and secrets of a namespace, or an extract of them, to files."""

from pathlib import Path
from typing import Annotated

import typer

from libs.backup.concat import PARTS, join
from libs.backup.errors import ExportRefused
from libs.backup.exporter import export_logs
from libs.backup.manifest import Format, Manifest, Request
from libs.tally.time import microseconds, parse_timestamp
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.operator import record_action
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


def export(
    to: Annotated[
        Path,
        typer.Option("--to", help="A new directory, or one file (x.ndjson, x.parquet) for analysis."),
    ],
    contest: Annotated[str | None, typer.Option("--contest", help="Only records that name this contest.")] = None,
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
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Write the logs up to their current ends, one file per partition; run it again to resume after an
    interruption.

    Without filters the export is complete and includes the secrets: `tally import` restores the namespace from it.
    Times are like 2026-05-01T18:00:00Z. Uploaded files and images are not included.
    """

    async def work() -> ExitCode:
        named = {f".{each}": each for each in Format}.get(to.suffix)
        if named and format_ not in (None, named):
            raise typer.BadParameter(f"{to.name} has another format.", param_hint="--format")
        directory = to.with_name(to.name + PARTS) if named else to
        request = Request(
            format=format_ or named or Format.NDJSON,
            contest=contest,
            since=_moment(since, "--from"),
            until=_moment(until, "--until"),
            secrets=not no_secrets and not named,
        )
        try:
            if named and to.exists():
                raise ExportRefused(f"{to} exists already.")
            stack = find_deployment(data_dir)
            await record_action(stack, "exported", contest=contest, secrets=request.secrets)
            with ProgressBar("Exporting", enabled=not as_json) as progress:
                manifest = await export_logs(stack, directory, request, progress)
            if named:
                join(directory, manifest, to)
        except ExportRefused as error:
            raise typer.BadParameter(error.message, param_hint="--to") from None
        if contest is not None and not manifest.records:
            raise typer.BadParameter(f"No record names contest {contest}.", param_hint="--contest")
        importable = request.is_whole and not named
        if as_json:
            print_json(as_dict(manifest, to, importable))
        else:
            show(manifest, to, importable)
        return ExitCode.FINE

    run(work())


def as_dict(manifest: Manifest, to: Path, importable: bool) -> dict[str, object]:
    return {
        "to": str(to),
        "importable": importable,
        "records": manifest.records_by_kind,
        "secrets": len(manifest.secrets) if manifest.request.secrets else 0,
        "began": manifest.began,
        "ended": manifest.ended,
    }


def show(manifest: Manifest, to: Path, importable: bool) -> None:
    for kind, count in manifest.records_by_kind.items():
        typer.echo(f"{kind}: {count:,} records")
    if not importable:
        typer.echo(f"Written to {to}, which cannot be imported.")
    elif manifest.request.secrets:
        typer.echo(f"The complete export is in {to}, with {len(manifest.secrets):,} secrets.")
        typer.echo("They reveal who voted for what: only the files' owner may read them.")
    else:
        typer.echo(f"The export is in {to}, without the secrets: `tally import` needs them in the object store.")


def _moment(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else microseconds(parse_timestamp(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
