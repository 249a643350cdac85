"""`tally keys`: creates, lists and revokes API keys."""

import re
import time
from collections.abc import Iterable
from typing import Annotated, Any, Final

import typer

from libs.catalogue import api_keys as catalogue_keys
from libs.catalogue.api_keys import IssuedKey
from libs.contracts.catalogue import NO_RULES, KeyRow, KeyRules
from libs.deployment.deployment import check_deployment_of
from libs.kafka.settings import KafkaSettings
from libs.tally.time import timestamp
from services.cli.catalogue_access import Environment, EnvironmentOption, open_catalogue_access
from services.cli.discovery import DATA_DIR, find_deployment
from services.cli.runner import AsJson, DataDir, ExitCode, moment, print_json, run

_DURATION: Final = re.compile(r"([0-9]{1,5})([dhm])")

app = typer.Typer(no_args_is_help=True, help="API keys of accounts.")


async def issue_key(
    kafka: KafkaSettings,
    valkey_url: str,
    namespace: str,
    account: str,
    permissions: Iterable[str],
    rules: KeyRules = NO_RULES,
) -> IssuedKey:
    """Create an API key in the environment `namespace`.

    Raises `ValidationFailed`, `LogUnavailable`, `ViewsUnavailable`.
    """
    async with open_catalogue_access(kafka, valkey_url, namespace) as access:
        return await catalogue_keys.issue_key(access.writer, account, permissions, rules)


@app.command()
def create(
    account: Annotated[str, typer.Option("--account", help="Owner of the key; created if necessary.")],
    permission: Annotated[list[str], typer.Option("--permission", help="Permission of the key; repeatable.")],
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=0, help="Requests per second; 0: no limit. Default: TALLY_RATE_PER_KEY."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Label shown by `tally keys list`.")] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", help="Expiry: a timestamp, or a duration from now like 30d or 12h.")
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option("--network", help="Allowed network like 192.0.2.0/24; repeatable."),
    ] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
) -> None:
    """Create an API key and print it; it cannot be shown again."""

    async def work() -> ExitCode:
        rules = KeyRules(name, None if expires is None else _expiry(expires), tuple(network or ()), rate)
        stack = find_deployment(data_dir)
        namespace = environment.namespace(stack.namespace)
        await check_deployment_of(stack)
        key = await issue_key(stack.kafka_settings, stack.valkey, namespace, account, permission, rules)
        if as_json:
            print_json({"key_id": key.key_id, "api_key": key.api_key, "account": key.account})
        else:
            typer.echo(f"Key {key.key_id} of account {key.account}; it is not shown again:\n{key.api_key}")
        return ExitCode.FINE

    run(work())


@app.command("list")
def list_keys(
    environment: EnvironmentOption = Environment.PRODUCTION, data_dir: DataDir = DATA_DIR, as_json: AsJson = False
) -> None:
    """List all keys with ids, accounts, permissions and rules, never the keys themselves.

    The last use is precise to the minute and up to half a minute late; it is unknown after Valkey loses its data.
    """

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        namespace = environment.namespace(stack.namespace)
        async with open_catalogue_access(stack.kafka_settings, stack.valkey, namespace) as access:
            rows = await catalogue_keys.list_keys(access.views)
            used = await access.uses.last()
        shown = [_shown(row) | {"last_used": _time(used.get(row.key_id))} for row in rows]
        if as_json:
            print_json(shown)
        for one in shown if not as_json else ():
            typer.echo(_line(one))
        return ExitCode.FINE

    run(work())


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="Id of the key, from `tally keys list`.")],
    environment: EnvironmentOption = Environment.PRODUCTION,
    data_dir: DataDir = DATA_DIR,
    as_json: AsJson = False,
    execute: Annotated[bool, typer.Option("--execute", hidden=True)] = True,
) -> None:
    """Revoke a key at once: within a second every process rejects it."""
    del execute  # Revoking a leaked key must not need a second command; the flag is accepted for uniformity.
    # No `check_deployment_of`: keys depend on neither the votes nor the object store.

    async def work() -> ExitCode:
        stack = find_deployment(data_dir)
        namespace = environment.namespace(stack.namespace)
        async with open_catalogue_access(stack.kafka_settings, stack.valkey, namespace) as access:
            row = await catalogue_keys.find_key(access.views, key_id)
            await catalogue_keys.revoke_key(access.writer, access.views, key_id)
            await access.uses.forget(key_id)
        if as_json:
            print_json(_shown(row))
        else:
            typer.echo(f"Revoked key {key_id} of account {row.account}.")
        return ExitCode.FINE

    run(work())


def _shown(row: KeyRow) -> dict[str, Any]:
    return {
        "key_id": row.key_id,
        "account": row.account,
        "permissions": list(row.permissions),
        "name": row.rules.name,
        "expires": _time(row.rules.expires),
        "networks": list(row.rules.networks),
        "rate": row.rules.rate,
        "created": timestamp(row.issued),
    }


def _line(shown: dict[str, Any]) -> str:
    parts = [shown["key_id"], shown["account"], shown["created"], " ".join(shown["permissions"])]
    parts += [f"name: {shown['name']}"] if shown["name"] else []
    parts += [f"expires: {shown['expires']}"] if shown["expires"] else []
    parts += [f"networks: {' '.join(shown['networks'])}"] if shown["networks"] else []
    parts += [f"last used: {shown['last_used'] or 'unknown'}"]
    return "  ".join(parts)


def _time(microseconds: int | None) -> str | None:
    return None if microseconds is None else timestamp(microseconds)


def _expiry(text: str) -> int:
    """Return the expiry in microseconds since 1970 UTC. Raises `BadParameter`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return moment(text, "--expires")
    seconds = int(match[1]) * {"d": 86_400, "h": 3_600, "m": 60}[match[2]]
    return (int(time.time()) + seconds) * 1_000_000
