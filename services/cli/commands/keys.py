"""`tally keys`: creates, lists and revokes API keys."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from libs.catalogue import api_keys
from libs.catalogue.api_keys import PERMISSIONS, IssuedKey
from libs.contracts.catalogue_events import KeyRow, KeyRules
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.tally.time_conversion import timestamp
from services.cli.command_decorator import EnvironmentOption, Execute, command, command_group, moment
from services.cli.contest_lookup import named
from services.cli.render import Block, Rows

_DURATION: Final = re.compile(r"([0-9]{1,5})([dhm])")

app = command_group("API keys of accounts.")


@dataclass(frozen=True, slots=True)
class Key:
    """An API key without its text."""

    key_id: str
    account: str
    created: str | None
    permissions: tuple[str, ...]
    name: str
    expires: str | None
    networks: tuple[str, ...]
    rate: int | None
    parent: str | None
    last_used: str | None

    @classmethod
    def of(cls, row: KeyRow, last_used: int | None) -> "Key":
        rules = row.rules
        return cls(
            row.key_id, row.account, timestamp(row.issued), row.permissions, rules.name, timestamp(rules.expires),
            rules.networks, rules.rate, row.parent, timestamp(last_used),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Keys:
    keys: list[Key]


@dataclass(frozen=True, slots=True)
class Revoked:
    """A revoked key, and those that descend from it: revoked, too, unless they are kept."""

    key: Key
    descendants: list[Key]
    kept: bool
    executed: bool


def _created(key: IssuedKey) -> Iterator[Block]:
    yield f"Key {key.key_id} of account {key.account}; it is not shown again:"
    yield key.api_key


@app.command()
@command(text=_created)
async def create(
    deployment: Deployment,
    account: Annotated[str, typer.Option("--account", help="Owner of the key; created if necessary.")],
    permission: Annotated[
        list[str], typer.Option("--permission", help=f"One of: {', '.join(PERMISSIONS)}; repeatable.")
    ],
    rate: Annotated[
        int | None,
        typer.Option("--rate", min=0, help="Requests per second; 0: no limit. Default: TALLY_RATE_PER_KEY."),
    ] = None,
    name: Annotated[str, typer.Option("--name", help="Name of the key, such as its user.")] = "",
    expires: Annotated[
        str | None, typer.Option("--expires", help="Expiry: a timestamp, or a duration from now like 30d or 12h.")
    ] = None,
    network: Annotated[
        list[str] | None,
        typer.Option("--network", help="Allowed network like 192.0.2.0/24; repeatable."),
    ] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
) -> IssuedKey:
    """Create an API key and print it; it cannot be shown again."""
    rules = KeyRules(name, None if expires is None else _expiry(expires), tuple(network or ()), rate)
    writer = await deployment.catalogue_of(environment).writer()
    return await api_keys.issue_key(writer, account, permission, rules)


@app.command("list")
@command()
async def list_keys(deployment: Deployment, environment: EnvironmentOption = Environment.PRODUCTION) -> Keys:
    """List all keys with ids, accounts, permissions and rules, never the keys themselves.

    The last use is precise to the minute and up to half a minute late; it is unknown after Valkey loses its data.
    """
    catalogue = deployment.catalogue_of(environment)
    used = await catalogue.key_uses.last()
    return Keys([Key.of(row, used.get(row.key_id)) for row in await api_keys.list_keys(catalogue.views)])


def _revoked(result: Revoked) -> Iterator[Block]:
    key = result.key
    yield f"Key {named(key.key_id, key.name)} of account {key.account}: {', '.join(key.permissions)}."
    yield f"Created {key.created or '-'}, last used {key.last_used or '-'}."
    if result.descendants:
        yield f"Keys that descend from it, which are {'kept' if result.kept else 'revoked with it'}:"
        yield Rows(
            [
                {
                    "key": other.key_id,
                    "name": other.name,
                    "permissions": ", ".join(other.permissions),
                    "last used": other.last_used or "-",
                }
                for other in result.descendants
            ]
        )
    if result.executed:
        yield "Revoked: within a second every process rejects it."
    else:
        yield "Run again with --execute to revoke it permanently: every client that uses it is then rejected."


@app.command()
@command(text=_revoked)
async def revoke(
    deployment: Deployment,
    key_id: Annotated[str, typer.Argument(metavar="KEY_ID", help="Id of the key, from `tally keys list`.")],
    environment: EnvironmentOption = Environment.PRODUCTION,
    execute: Execute = False,
    now: Annotated[
        bool, typer.Option("--now", help="Revoke without a preview: for a key that leaked. Same as --execute.")
    ] = False,
    keep_descendants: Annotated[
        bool, typer.Option("--keep-descendants", help="Keep the keys that were made with it, or with those.")
    ] = False,
) -> Revoked:
    """Revoke a key permanently, with all that descend from it: within a second every process rejects them.

    Whoever held a key with keys:manage may have made others. Keep these where the key is replaced, not distrusted.
    """
    catalogue = deployment.catalogue_of(environment)
    row = await api_keys.find_key(catalogue.views, key_id)
    descendants = [other for other in await api_keys.list_keys(catalogue.views) if other.descends_from(key_id)]
    last_used = await catalogue.key_uses.last()
    if execute or now:
        # Unchecked, because keys depend on neither the votes nor the object store.
        await api_keys.revoke_key(await catalogue.writer(check=False), row, keep_descendants)
        for each in (row, *(() if keep_descendants else descendants)):
            await catalogue.key_uses.forget(each.key_id)
    shown = [Key.of(each, last_used.get(each.key_id)) for each in (row, *descendants)]
    return Revoked(shown[0], shown[1:], keep_descendants, execute or now)


def _expiry(text: str) -> int:
    """Return the expiry in microseconds since 1970 UTC. Raises `BadParameter`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return moment(text, "--expires")
    seconds = int(match[1]) * {"d": 86_400, "h": 3_600, "m": 60}[match[2]]
    return (int(time.time()) + seconds) * 1_000_000
