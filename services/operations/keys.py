"""`tally keys`: making, listing and revoking API keys."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson
import typer

from libs.catalogue import keys as catalogue_keys
from libs.catalogue.keys import IssuedKey
from libs.catalogue.writing import Writer
from libs.contracts.catalogue import KeyRow
from libs.contracts.topics import catalogue_topic, test_world
from libs.kafka.errors import AppendUnknown
from libs.kafka.settings import KafkaSettings
from libs.kafka.writer import LogWriter
from libs.tally.errors import TallyError, timestamp
from libs.views.catalogue import CatalogueViews
from libs.views.functions import open_valkey
from services.operations.connect import DATA_DIR, NoStack, Stack, find_stack

app = typer.Typer(no_args_is_help=True, help="API keys of accounts.")


class Environment(StrEnum):
    """Which world a key is for: a key of one is unknown in the other."""

    PRODUCTION = "production"
    TEST = "test"


class Office(NamedTuple):
    """What commands about keys need."""

    writer: Writer
    views: CatalogueViews


@asynccontextmanager
async def open_office(kafka: KafkaSettings, valkey_url: str, namespace: str) -> AsyncIterator[Office]:
    """For one world, `namespace`. The projector must be running: a key is there once it is folded."""
    valkey = open_valkey(valkey_url)
    log = LogWriter(kafka)
    await log.start()
    try:
        views = CatalogueViews(valkey, namespace)
        yield Office(Writer(catalogue_topic(namespace), log, views, AppendUnknown), views)
    finally:
        await log.stop()
        await valkey.close()


async def issue_key(
    kafka: KafkaSettings, valkey_url: str, namespace: str, account: str, permissions: Iterable[str]
) -> IssuedKey:
    """Make a key in the world `namespace`. Raises `ValidationFailed`, `LogUnavailable`, `ViewsUnavailable`."""
    async with open_office(kafka, valkey_url, namespace) as office:
        return await catalogue_keys.issue_key(office.writer, account, permissions)


DataDir = Annotated[Path, typer.Option("--data-dir", envvar="TALLY_DATA_DIR", help="Of the running stack.")]
World = Annotated[Environment, typer.Option("--environment", help="The legacy test environment is apart.")]
AsJson = Annotated[bool, typer.Option("--json", help="One line of JSON.")]


@app.command()
def create(
    account: Annotated[str, typer.Option("--account", help="Made if need be.")],
    permission: Annotated[list[str], typer.Option("--permission", help="Once for each permission.")],
    environment: World = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Make a key. It is shown this once."""
    stack = _stack(data_dir)
    key = _run(issue_key(stack.kafka_settings, stack.valkey, _namespace(stack, environment), account, permission))
    if as_json:
        _print({"key_id": key.key_id, "api_key": key.api_key, "account": key.account})
    else:
        typer.echo(f"Key {key.key_id} of account {key.account}; it is not shown again:\n{key.api_key}")


@app.command("list")
def list_keys(
    environment: World = Environment.PRODUCTION, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """All keys: ids, accounts and permissions, never the keys themselves."""
    stack = _stack(data_dir)

    async def read() -> list[KeyRow]:
        async with open_office(stack.kafka_settings, stack.valkey, _namespace(stack, environment)) as office:
            return await catalogue_keys.list_keys(office.views)

    rows = _run(read())
    if as_json:
        _print([_shown(row) for row in rows])
    else:
        for row in rows:
            typer.echo(f"{row.key_id}  {row.account}  {timestamp(row.issued)}  {' '.join(row.permissions)}")


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
    stack = _stack(data_dir)

    async def act() -> KeyRow:
        async with open_office(stack.kafka_settings, stack.valkey, _namespace(stack, environment)) as office:
            row = await catalogue_keys.find_key(office.views, key_id)
            await catalogue_keys.revoke_key(office.writer, office.views, key_id)
            return row

    row = _run(act())
    if as_json:
        _print(_shown(row))
    else:
        typer.echo(f"Revoked key {key_id} of account {row.account}.")


def _stack(data_dir: Path) -> Stack:
    try:
        return find_stack(data_dir)
    except NoStack as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(3) from None


def _namespace(stack: Stack, environment: Environment) -> str:
    return test_world(stack.namespace) if environment is Environment.TEST else stack.namespace


def _run(work: Any) -> Any:
    """Runs the coroutine; an error of ours is one line, with exit code 3 where a server is away, else 2."""
    try:
        return asyncio.run(work)
    except TallyError as error:
        typer.echo(error.message, err=True)
        raise typer.Exit(3 if error.retry_after_s is not None else 2) from None


def _shown(row: KeyRow) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "account": row.account,
        "permissions": list(row.permissions),
        "created": timestamp(row.issued),
    }


def _print(value: object) -> None:
    typer.echo(orjson.dumps(value).decode())
