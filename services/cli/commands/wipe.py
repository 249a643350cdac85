"""`tally wipe`: empties the legacy test environment."""

from collections import Counter
from typing import Annotated, Any, NamedTuple

import typer

from libs.catalogue.api_keys import list_keys, revoke_key
from libs.contracts.catalogue import KeyRow
from libs.contracts.topics import catalogue_topic
from libs.deployment.deployment import check_deployment_of
from libs.kafka.reader import LogReader
from libs.storage.store import environment_files, open_store
from services.cli.catalogue_access import Environment, EnvironmentOption, open_catalogue_access
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.progress import ProgressBar
from services.cli.reset import Contents, RecordName
from services.cli.runner import AsJson, DataDir, ExitCode, print_json, run


class Found(NamedTuple):
    """Records, objects and API keys that a wipe deletes."""

    records: list[RecordName]
    objects: list[str]
    keys: list[KeyRow]

    def by_account(self) -> dict[str, Counter[str]]:
        """Count the records by account and resource, including API keys."""
        found: dict[str, Counter[str]] = {}
        for name in self.records:
            found.setdefault(name.account, Counter())[name.resource] += 1
        for key in self.keys:
            found.setdefault(key.account, Counter())["keys"] += 1
        return dict(sorted(found.items()))


def wipe(
    environment: EnvironmentOption,
    keys: Annotated[bool, typer.Option("--keys", help="Revoke its API keys as well.")] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Execute it; default: only show the effect.")] = False,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Delete every record and file of the legacy test environment; its API keys stay unless --keys is given."""

    async def work() -> ExitCode:
        if environment is not Environment.TEST:
            raise typer.BadParameter("Only the test environment can be wiped.", param_hint="--environment")
        stack = find_deployment(data_dir)
        namespace = environment.namespace(stack.namespace)
        await check_deployment_of(stack)
        store = open_store(stack.storage_url)
        async with (
            open_catalogue_access(stack.kafka_settings, stack.valkey, namespace) as access,
            LogReader(stack.kafka_settings) as reader,
        ):
            contents = Contents(catalogue_topic(namespace), reader, access.views, access.writer)
            found = Found(
                await contents.list_records(),
                await store.names(environment_files(namespace)),
                await list_keys(access.views) if keys else [],
            )
            if execute:
                with ProgressBar("Wiping", enabled=not as_json) as progress:
                    await contents.delete_all(progress)
                    for name in await store.names(environment_files(namespace)):
                        await store.delete(name)
                    for key in found.keys:
                        await revoke_key(access.writer, access.views, key.key_id)
        _show(found, execute, as_json)
        return ExitCode.FINE

    run(work())


def _show(found: Found, executed: bool, as_json: bool) -> None:
    accounts = found.by_account()
    if as_json:
        rows: list[dict[str, Any]] = [{"account": name, "records": numbers} for name, numbers in accounts.items()]
        print_json({"accounts": rows, "objects": len(found.objects), "executed": executed})
        return
    for account, numbers in accounts.items():
        listed = ", ".join(f"{number:,} {resource}" for resource, number in sorted(numbers.items()))
        typer.echo(f"{account}: {listed}")
    if found.objects:
        typer.echo(f"files: {len(found.objects):,}")
    if not accounts and not found.objects:
        typer.echo("The environment is empty.")
    elif executed:
        typer.echo("Deleted.")
    else:
        typer.echo("Run again with --execute to delete all of this permanently.")
