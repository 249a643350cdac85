"""`tally wipe`: empties the legacy test environment."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from libs.catalogue.api_keys import list_keys, revoke_key
from libs.contracts.catalogue_events import KeyRow
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.storage.object_store import environment_files
from services.cli.command_decorator import EnvironmentOption, Execute, command
from services.cli.environment_reset import Contents, RecordName
from services.cli.render import Block


@dataclass(frozen=True, slots=True)
class Account:
    """Numbers of records by resource, including API keys."""

    account: str
    records: dict[str, int]


@dataclass(frozen=True, slots=True)
class Wiped:
    """Records by account, and the number of files."""

    accounts: list[Account]
    objects: int
    executed: bool


def _text(result: Wiped) -> Iterator[Block]:
    for one in result.accounts:
        listed = ", ".join(f"{number:,} {resource}" for resource, number in sorted(one.records.items()))
        yield f"{one.account}: {listed}"
    if result.objects:
        yield f"files: {result.objects:,}"
    if not result.accounts and not result.objects:
        yield "The environment is empty."
    elif result.executed:
        yield "Deleted."
    else:
        yield "Run again with --execute to delete all of this permanently."


@command(text=_text)
async def wipe(
    deployment: Deployment,
    environment: EnvironmentOption,
    keys: Annotated[bool, typer.Option("--keys", help="Revoke its API keys as well.")] = False,
    execute: Execute = False,
) -> Wiped:
    """Delete every record and file of the legacy test environment; its API keys stay unless --keys is given."""
    if environment is not Environment.TEST:
        raise typer.BadParameter("Only the test environment can be wiped.", param_hint="--environment")
    catalogue, store = deployment.catalogue_of(environment), deployment.store
    writer = await catalogue.writer()
    contents = Contents(catalogue.topic, deployment.reader, catalogue.views, writer)
    files = environment_files(environment.namespace(deployment.namespace))
    records, objects = await contents.list_records(), await store.names(files)
    issued = await list_keys(catalogue.views) if keys else []
    if execute:
        await contents.delete_all(deployment.progress)
        for name in await store.names(files):
            await store.delete(name)
        for key in issued:
            await revoke_key(writer, key, keeps_descendants=True)
    return Wiped(_by_account(records, issued), len(objects), execute)


def _by_account(records: Sequence[RecordName], keys: Sequence[KeyRow]) -> list[Account]:
    found: dict[str, Counter[str]] = {}
    for name in records:
        found.setdefault(name.account, Counter())[name.resource] += 1
    for key in keys:
        found.setdefault(key.account, Counter())["keys"] += 1
    return [Account(account, dict(numbers)) for account, numbers in sorted(found.items())]
