"""`tally keys`: creates, lists and revokes API keys."""

import re
import sys
import time
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher
from typing import Annotated, Any, Final

import typer
from typer import Argument, BadParameter, Option

from libs.catalogue import api_keys
from libs.catalogue.api_keys import PERMISSIONS
from libs.contracts.catalogue_events import ApiKey, KeyRules
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from services.cli.command_decorator import EnvironmentOption, Execute, command, command_group, moment, named
from services.cli.output import Block, Result, Rows

_DURATION: Final = re.compile(r"([0-9]{1,5})([dhm])")

LEAST_LETTERS: Final = 4
MEDIUM_LETTERS: Final = 5
"""Of names up to these lengths none, or one letter is taken for a misspelling, of longer ones two."""

app = command_group("API keys of accounts.")


@command(app)
async def create(
    deployment: Deployment,
    account: Annotated[str, Option(help="Owner of the key.")],
    permission: Annotated[list[str], Option(help=f"One of: {', '.join(PERMISSIONS)}; repeatable.")],
    rate: Annotated[
        int | None, Option(min=0, help="Requests per second; 0: no limit. Default: TALLY_RATE_PER_KEY.")
    ] = None,
    name: Annotated[str, Option(help="Name of the key, such as its user.")] = "",
    expires: Annotated[
        str | None, Option(help="Expiry: a timestamp, or a duration from now like 30d or 12h.")
    ] = None,
    network: Annotated[list[str] | None, Option(help="Allowed network like 192.0.2.0/24; repeatable.")] = None,
    environment: EnvironmentOption = Environment.PRODUCTION,
    new_account: Annotated[
        bool, Option("--new-account", help="Create the account without a question if it has no key.")
    ] = False,
) -> Result:
    """Create an API key at once and print it; it cannot be shown again.

    A terminal asks before it creates an account. Without a terminal, a name that resembles an existing account's
    needs --new-account.
    """
    rules = KeyRules(name, None if expires is None else _expiry(expires), tuple(network or ()), rate)
    catalogue = deployment.catalogue_of(environment)
    accounts = {key.account for key in await api_keys.list_keys(catalogue.views)}
    if account not in accounts and not new_account:
        _confirm_new(account, accounts)
    key = await api_keys.issue_key(await catalogue.writer(), account, permission, rules)
    return Result(key, [f"Key {key.key_id} of account {key.account}; it is not shown again:", key.api_key])


def _confirm_new(account: str, accounts: Iterable[str]) -> None:
    """Ask whether the account is new. Raises `Abort` if it is not, `BadParameter` for a probable misspelling."""
    similar = next((each for each in sorted(accounts) if _is_misspelt(account, each)), None)
    about = f"Account {account} has no key yet{f'; did you mean {similar}?' if similar else '.'}"
    if sys.stdin.isatty():
        typer.confirm(f"{about} Create it?", abort=True, err=True)
    elif similar:
        raise BadParameter(f"{about} --new-account creates it.", param_hint="--account")
    else:
        typer.echo(f"{about} It is created.", err=True)


def _is_misspelt(given: str, account: str) -> bool:
    """Return whether one or two letters are wrong; names of a series differ in numbers and single letters."""
    if len({re.sub(r"[_.-]", "", name.casefold()) for name in (given, account)}) == 1:
        return True
    words = (re.split("[^a-z]", name.casefold()) for name in (given, account))
    ours, theirs = ("".join(word for word in each if len(word) > 1) for each in words)
    changes = [code for code in SequenceMatcher(None, ours, theirs).get_opcodes() if code[0] != "equal"]
    letters = sum(max(end - start, to - since) for _, start, end, since, to in changes)
    return len(ours) >= LEAST_LETTERS and 0 < letters <= (2 if len(ours) > MEDIUM_LETTERS else 1)


@command(app, "list")
async def list_keys(deployment: Deployment, environment: EnvironmentOption = Environment.PRODUCTION) -> Result:
    """List all keys with ids, accounts, permissions and rules, never the keys themselves.

    The last use is precise to the minute and up to half a minute late; it is unknown after Valkey loses its data.
    """
    catalogue = deployment.catalogue_of(environment)
    used = await catalogue.key_uses.last()
    keys = await api_keys.list_keys(catalogue.views)
    return listing([members_of(key, used.get(key.key_id)) for key in keys])


def listing(keys: Sequence[dict[str, Any]]) -> Result:
    """Return the list of keys, whose text says of each that no use is known."""
    shown = [key | {"last_used": key["last_used"] or "-"} for key in keys]
    return Result({"keys": keys}, Result.listing("keys", shown).text)


@command(app)
async def revoke(
    deployment: Deployment,
    key_id: Annotated[str, Argument(metavar="KEY_ID", help="Id of the key, from `tally keys list`.")],
    environment: EnvironmentOption = Environment.PRODUCTION,
    execute: Execute = False,
    now: Annotated[
        bool, Option("--now", help="Revoke without a preview: for a key that leaked. Same as --execute.")
    ] = False,
    keep_descendants: Annotated[
        bool, Option("--keep-descendants", help="Keep the keys that were made with it, or with those.")
    ] = False,
) -> Result:
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
    first, *others = (members_of(each, last_used.get(each.key_id)) for each in (row, *descendants))
    members = {"key": first, "descendants": others, "kept": keep_descendants}
    text: list[Block] = [
        f"Key {named(key_id, row.rules.name)} of account {row.account}: {', '.join(row.permissions)}.",
        f"Created {first['created'] or '-'}, last used {first['last_used'] or '-'}.",
    ]
    if others:
        text.append(f"Keys that descend from it, which are {'kept' if keep_descendants else 'revoked with it'}:")
        text.append(Rows([_descendant(other) for other in others]))
    done = "Revoked: within a second every process rejects it."
    to = "revoke it permanently: every client that uses it is then rejected"
    return Result.change(members, text, execute or now, done, to)


def members_of(row: ApiKey, last_used: int | None) -> dict[str, Any]:
    return {"account": row.account} | api_keys.shown_key(row, last_used)


def _descendant(key: dict[str, Any]) -> dict[str, object]:
    permissions, used = ", ".join(key["permissions"]), key["last_used"] or "-"
    return {"key": key["key_id"], "name": key["name"], "permissions": permissions, "last used": used}


def _expiry(text: str) -> int:
    """Return the expiry in microseconds since 1970 UTC. Raises `BadParameter`."""
    match = _DURATION.fullmatch(text)
    if match is None:
        return moment(text, "--expires")
    seconds = int(match[1]) * {"d": 86_400, "h": 3_600, "m": 60}[match[2]]
    return (int(time.time()) + seconds) * 1_000_000
