"""`tally export` writes the logs and secrets of a namespace to files, `tally import` restores them."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from typer import BadParameter, Option

from libs.backup.exporter import export_logs
from libs.backup.importer import import_logs
from libs.backup.manifest import ExportRefused, ExportRequest
from libs.deployment.deployment import Deployment
from services.cli.command_decorator import Execute, command
from services.cli.operator_actions import record_action
from services.cli.output import Result


@command()
async def export(
    deployment: Deployment,
    *,
    to: Annotated[Path, Option(help="A new directory.")],
    no_secrets: Annotated[bool, Option("--no-secrets", help="Omit the secrets that identify voters.")] = False,
    no_files: Annotated[bool, Option("--no-files", help="Omit uploaded files and pictures.")] = False,
) -> Result:
    """Write the logs up to their current ends, one NDJSON file per partition; run it again to resume after an
    interruption.

    `tally import` restores the namespace from it, `tally up --restore` starts it on an empty machine. DuckDB and
    its kin read the logs as they are: `FROM read_json('votes-*.ndjson')`.
    """
    request = ExportRequest(secrets=not no_secrets, files=not no_files)
    try:
        await record_action(deployment, "exported", secrets=request.secrets, files=request.files)
        manifest = await export_logs(deployment, to, request)
    except ExportRefused as error:
        raise BadParameter(error.message, param_hint="--to") from None
    records, files = manifest.records_by_kind, len(manifest.objects)
    secrets = len(manifest.secrets) if request.secrets else 0
    text = [f"{kind}: {count:,} records" for kind, count in records.items()]
    text.append(f"files and pictures: {files:,}")
    if request.secrets:
        text.append(f"The complete export is in {to}, with {secrets:,} secrets.")
        text.append("They reveal who voted for what: only the files' owner may read them.")
    else:
        text.append(f"The export is in {to}, without the secrets: `tally import` needs them in the object store.")
    times = {"began": manifest.began, "ended": manifest.ended}
    return Result({"to": to, "records": records, "secrets": secrets, "files": files} | times, text)


@command()
async def import_export(
    deployment: Deployment,
    source: Annotated[
        Path, Option("--from", exists=True, file_okay=False, help="Directory of a complete export.")
    ],
    namespace: Annotated[str | None, Option(help="Namespace without topics; default: from the settings.")] = None,
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
    text = [
        f"The export of {export.namespace}, written at {export.ended}, is complete and unchanged.",
        f"Of it, {_listed(present)} existed before in {into}.",
    ]
    done = f"Imported {_listed(missing)}. Services started with TALLY_NAMESPACE={into} serve it."
    to = f"import {_listed(missing)} into {into}"
    names = {"namespace": into, "exported_namespace": export.namespace, "exported_at": export.ended}
    before_import = {"present": found.present} | {
        f"{kind}_present": present[kind] for kind in ("secrets", "files")
    }
    return Result.change({**names, **exported, **before_import}, text, execute, done, to)


def _listed(numbers: dict[str, int]) -> str:
    return "{records:,} records, {secrets:,} secrets and {files:,} files".format(**numbers)
