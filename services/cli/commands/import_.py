"""`tally import`: restores a namespace from a complete export."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.importer import Imported, import_logs
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


def import_export(
    source: Annotated[
        Path, typer.Option("--from", exists=True, file_okay=False, help="Directory of a complete export.")
    ],
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Namespace without topics; default: from the settings.")
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only check.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Restore a namespace's logs with the exported offsets and append times, hence with the same results.

    Run it again to resume after an interruption. No service may use the namespace before the import ends; then the
    projector folds the logs as usual.
    """

    async def work() -> ExitCode:
        found = find_deployment(data_dir)
        stack = replace(found, namespace=namespace or found.namespace)
        with ProgressBar("Importing" if execute else "Checking", enabled=not as_json) as progress:
            result = await import_logs(stack, source, execute, progress)
        if as_json:
            print_json({"executed": execute, "namespace": stack.namespace, **as_dict(result)})
        else:
            show(result, stack.namespace, execute)
        return ExitCode.FINE

    run(work())


def as_dict(result: Imported) -> dict[str, int]:
    return {
        "records": result.manifest.records,
        "present": result.present,
        "secrets": len(result.manifest.secrets),
        "secrets_present": result.secrets_present,
    }


def show(result: Imported, namespace: str, executed: bool) -> None:
    manifest = result.manifest
    typer.echo(f"The export of {manifest.namespace}, written at {manifest.ended}, is complete and unchanged.")
    secrets = len(manifest.secrets) - result.secrets_present
    missing = f"{manifest.records - result.present:,} records and {secrets:,} secrets"
    before = f"{result.present:,} records and {result.secrets_present:,} secrets existed before"
    if executed:
        typer.echo(f"Imported {missing} into {namespace}; {before}.")
        typer.echo(f"Services started with TALLY_NAMESPACE={namespace} serve it.")
    else:
        typer.echo(f"Run again with --execute to import {missing} into {namespace}; {before}.")
