"""`tally import`: restores a namespace from a complete export."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.importer import import_logs
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import Execute, command
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """Numbers of the export's records, secrets and files, and of those that the namespace had before."""

    executed: bool
    namespace: str
    exported_namespace: str
    exported_at: str | None
    records: int
    present: int
    secrets: int
    secrets_present: int
    files: int
    files_present: int


def _text(result: ImportSummary) -> Iterator[Block]:
    yield f"The export of {result.exported_namespace}, written at {result.exported_at}, is complete and unchanged."
    secrets = result.secrets - result.secrets_present
    files = result.files - result.files_present
    missing = f"{result.records - result.present:,} records, {secrets:,} secrets and {files:,} files"
    present = f"{result.present:,} records, {result.secrets_present:,} secrets and {result.files_present:,} files"
    before = f"{present} existed before"
    if result.executed:
        yield f"Imported {missing} into {result.namespace}; {before}."
        yield f"Services started with TALLY_NAMESPACE={result.namespace} serve it."
    else:
        yield f"Run again with --execute to import {missing} into {result.namespace}; {before}."


@command(text=_text)
async def import_export(
    deployment: Deployment,
    source: Annotated[
        Path, typer.Option("--from", exists=True, file_okay=False, help="Directory of a complete export.")
    ],
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Namespace without topics; default: from the settings.")
    ] = None,
    execute: Execute = False,
) -> ImportSummary:
    """Restore a namespace's logs with the exported offsets and append times, hence with the same results.

    Run it again to resume after an interruption. No service may use the namespace before the import ends; then the
    projector processes the logs as usual.
    """
    addresses = replace(deployment.addresses, namespace=namespace or deployment.namespace)
    async with Deployment(addresses, deployment.progress) as target:
        result = await import_logs(target, source, execute)
    manifest = result.manifest
    return ImportSummary(
        executed=execute,
        namespace=addresses.namespace,
        exported_namespace=manifest.namespace,
        exported_at=manifest.ended,
        records=manifest.records,
        present=result.present,
        secrets=len(manifest.secrets),
        secrets_present=result.secrets_present,
        files=len(manifest.objects),
        files_present=result.files_present,
    )
