"""`tally import`: restores a namespace from a complete export."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from libs.backup.importer import import_logs
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import Execute, command
from services.cli.output import Result


@command()
async def import_export(
    deployment: Deployment,
    source: Annotated[
        Path, typer.Option("--from", exists=True, file_okay=False, help="Directory of a complete export.")
    ],
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="Namespace without topics; default: from the settings.")
    ] = None,
    execute: Execute = False,
) -> Result:
    """Restore a namespace's logs with the exported offsets and append times, hence with the same results.

    Run it again to resume after an interruption. No service may use the namespace before the import ends; then the
    projector processes the logs as usual.
    """
    addresses = replace(deployment.addresses, namespace=namespace or deployment.namespace)
    async with Deployment(addresses, deployment.progress) as target:
        found = await import_logs(target, source, execute)
    export, into = found.manifest, addresses.namespace
    exported = {"records": export.records, "secrets": len(export.secrets), "files": len(export.objects)}
    present = {"records": found.present, "secrets": found.secrets_present, "files": found.files_present}
    missing = {kind: number - present[kind] for kind, number in exported.items()}
    before = f"{_listed(present)} existed before"
    text = [f"The export of {export.namespace}, written at {export.ended}, is complete and unchanged."]
    if execute:
        text.append(f"Imported {_listed(missing)} into {into}; {before}.")
        text.append(f"Services started with TALLY_NAMESPACE={into} serve it.")
    else:
        text.append(f"Run again with --execute to import {_listed(missing)} into {into}; {before}.")
    names = {"namespace": into, "exported_namespace": export.namespace, "exported_at": export.ended}
    before_import = {"present": found.present} | {
        f"{kind}_present": present[kind] for kind in ("secrets", "files")
    }
    return Result({"executed": execute, **names, **exported, **before_import}, text)


def _listed(numbers: dict[str, int]) -> str:
    return "{records:,} records, {secrets:,} secrets and {files:,} files".format(**numbers)
