"""`tally keys`: making, listing and revoking API keys."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from libs.catalogue import keys as catalogue_keys
from libs.catalogue.keys import IssuedKey
from libs.contracts.catalogue import KeyRow
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import timestamp
from services.operations.connect import DATA_DIR, find_stack
from services.operations.deployment import check_stack
from services.operations.office import Environment, World, open_office
from services.operations.running import AsJson, DataDir, Ending, print_json, run

app = typer.Typer(no_args_is_help=True, help="API keys of accounts.")


async def issue_key(
    kafka: KafkaSettings,
    valkey_url: str,
    namespace: str,
    account: str,
    permissions: Iterable[str],
    rate: int | None = None,
) -> IssuedKey:
    """Make a key in the world `namespace`, with a `rate` as `catalogue_keys.issue_key` takes it.

    Raises `ValidationFailed`, `LogUnavailable`, `ViewsUnavailable`.
    """
    async with open_office(kafka, valkey_url, namespace) as office:
        return await catalogue_keys.issue_key(office.writer, account, permissions, rate)


@app.command()
def create(
    account: Annotated[str, typer.Option("--account", help="Made if need be.")],
    permission: Annotated[list[str], typer.Option("--permission", help="Once for each permission.")],
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=0, help="Requests a second; 0: no limit. Left out: TALLY_RATE_PER_KEY."),
    ] = None,
    environment: World = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once."""

    async def work() -> Ending:
        stack = find_stack(data_dir)
        namespace = environment.namespace(stack.namespace)
        await check_stack(stack)
        key = await issue_key(stack.kafka_settings, stack.valkey, namespace, account, permission, rate)
        if as_json:
            print_json({"key_id": key.key_id, "api_key": key.api_key, "account": key.account})
        else:
            typer.echo(f"Key {key.key_id} of account {key.account}; it is not shown again:\n{key.api_key}")
        return Ending.FINE

    run(work())


@app.command("list")
def list_keys(
    environment: World = Environment.PRODUCTION, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """All keys: ids, accounts and permissions, never the keys themselves."""

    async def work() -> Ending:
        stack = find_stack(data_dir)
        namespace = environment.namespace(stack.namespace)
        async with open_office(stack.kafka_settings, stack.valkey, namespace) as office:
            rows = await catalogue_keys.list_keys(office.views)
        if as_json:
            print_json([_shown(row) for row in rows])
        for row in rows if not as_json else ():
            typer.echo(f"{row.key_id}  {row.account}  {timestamp(row.issued)}  {' '.join(row.permissions)}")
        return Ending.FINE

    run(work())


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="As `tally keys list` shows it.")],
    environment: World = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
    execute: Annotated[bool, typer.Option("--execute", hidden=True)] = True,
) -> None:
    """Revoke a key, at once: within a second no process takes it any more."""
    del execute  # a leaked key must not wait for a second command; the flag is taken as everywhere else
    # nor for a deployment that is as it must be: keys depend on neither the votes nor the object store

    async def work() -> Ending:
        stack = find_stack(data_dir)
        namespace = environment.namespace(stack.namespace)
        async with open_office(stack.kafka_settings, stack.valkey, namespace) as office:
            row = await catalogue_keys.find_key(office.views, key_id)
            await catalogue_keys.revoke_key(office.writer, office.views, key_id)
        if as_json:
            print_json(_shown(row))
        else:
            typer.echo(f"Revoked key {key_id} of account {row.account}.")
        return Ending.FINE

    run(work())


def _shown(row: KeyRow) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "account": row.account,
        "permissions": list(row.permissions),
        "rate": row.rate,
        "created": timestamp(row.issued),
    }
