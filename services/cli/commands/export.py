"""`tally export`: the logs and secrets of a namespace, or an extract of them, as files."""

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
        typer.Option("--to", help="A directory of its own, or one file (x.ndjson, x.parquet) to look into."),
    ],
    contest: Annotated[str | None, typer.Option("--contest", help="Only what names this contest.")] = None,
    since: Annotated[str | None, typer.Option("--from", help="Only what was appended from then on.")] = None,
    until: Annotated[str | None, typer.Option("--until", help="Only what was appended before then.")] = None,
    format_: Annotated[
        Format | None,
        typer.Option("--format", help="Parquet is for analysts; absent: by the file's name."),
    ] = None,
    no_secrets: Annotated[bool, typer.Option("--no-secrets", help="Leave out what tells who voted.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Write the logs as they lie there up to now, a file a partition; interrupted, run it again to go on.

    Without filters it is a whole export, with the secrets: `tally import` makes the same namespace of it. Times
    are like 2026-05-01T18:00:00Z. Uploaded files and images are not in it.
    """

    async def work() -> ExitCode:
        named = {f".{each}": each for each in Format}.get(to.suffix)
        if named and format_ not in (None, named):
            raise typer.BadParameter(f"is not the format of {to.name}.", param_hint="--format")
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
        typer.echo(f"They are in {to}, which cannot be imported.")
    elif manifest.request.secrets:
        typer.echo(f"The whole export is in {to}, with {len(manifest.secrets):,} secrets.")
        typer.echo("Whoever has those can tell who voted for what: only the files' owner may read them.")
    else:
        typer.echo(f"The export is in {to}, without the secrets: `tally import` will look for them.")


def _moment(text: str | None, option: str) -> int | None:
    try:
        return None if text is None else microseconds(parse_timestamp(text))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from None
