"""Issues, lists and revokes API keys. Only a key's SHA-256 is stored; `api_key_cache.py` checks keys."""

import asyncio
import hashlib
import ipaddress
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, Protocol

from libs.catalogue.command_writer import CommandWriter, WriteRequest
from libs.catalogue.errors import UnknownKey
from libs.contracts.catalogue_events import (
    ACCOUNT_PATTERN,
    NO_RULES,
    KeyIssued,
    KeyRevoked,
    KeyRow,
    KeyRows,
    KeyRules,
    OutcomeKind,
)
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.contracts.validation import Problem, ValidationFailed

PERMISSIONS: Final = (
    "content:read",
    "content:write",
    "votes:write",
    "results:read",
    "results:read_hidden",
    "purchases:read",
    "purchases:write",
    "sources:write",
    "operations",
)
MAX_NAME: Final = 100
MAX_NETWORKS: Final = 100


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; its text is stored nowhere."""

    key_id: str
    api_key: str
    account: str


class KeyReader(Protocol):
    """Reads keys from the catalogue's views."""

    async def keys(self, partition: int, known_version: str) -> KeyRows: ...


async def issue_key(
    writer: CommandWriter, account: str, permissions: Iterable[str], rules: KeyRules = NO_RULES
) -> IssuedKey:
    """Issue a key of 256 random bits; the first key creates its account.

    Raises `ValidationFailed` for an invalid name, permission or rule, and the errors of `CommandWriter.record`.
    """
    rules = _checked(rules, writer.now())
    granted = tuple(dict.fromkeys(permissions))
    unknown = [permission for permission in granted if permission not in PERMISSIONS]
    if unknown:
        problem = f"unknown permission {unknown[0]}; allowed: {', '.join(PERMISSIONS)}"
        raise ValidationFailed([Problem("/permissions", problem)])
    if re.fullmatch(ACCOUNT_PATTERN.rstrip("$"), account) is None:
        raise ValidationFailed(
            [Problem("/account", "must be 1 to 64 of [A-Za-z0-9_.-] and start with a letter or digit")]
        )
    key_id = secrets.token_hex(8)
    api_key = f"tk_{key_id}_{secrets.token_urlsafe(32)}"
    await writer.record(
        KeyIssued(
            account=account,
            command_id=WriteRequest.once().command_id,
            at=writer.now(),
            key_id=key_id,
            sha256=hashlib.sha256(api_key.encode()).hexdigest(),
            permissions=granted,
            rules=rules,
        )
    )
    return IssuedKey(key_id, api_key, account)


async def list_keys(views: KeyReader) -> list[KeyRow]:
    """Return every key of the environment, sorted by account and time of issue."""
    found = await asyncio.gather(*(views.keys(partition, "") for partition in range(CATALOGUE_PARTITIONS)))
    rows = [row for keys in found for row in keys.rows or ()]
    return sorted(rows, key=lambda row: (row.account, row.issued))


async def find_key(views: KeyReader, key_id: str) -> KeyRow:
    """Return the key with this id. Raises `UnknownKey`."""
    row = next((row for row in await list_keys(views) if row.key_id == key_id), None)
    if row is None:
        raise UnknownKey(f"There is no key {key_id}.")
    return row


async def revoke_key(writer: CommandWriter, views: KeyReader, key_id: str) -> None:
    """Revoke a key. Raises `UnknownKey`, and the errors of `CommandWriter.record`."""
    row = await find_key(views, key_id)
    request = WriteRequest.once()
    outcome = await writer.record(
        KeyRevoked(account=row.account, command_id=request.command_id, at=writer.now(), key_id=key_id)
    )
    if outcome.kind is not OutcomeKind.OK:
        raise UnknownKey(f"There is no key {key_id}.")


def _checked(rules: KeyRules, now: int) -> KeyRules:
    """Return the rules with networks in canonical form. Raises `ValidationFailed`."""
    problems = []
    if len(rules.name) > MAX_NAME or not rules.name.isprintable():
        problems.append(Problem("/name", f"must be printable and at most {MAX_NAME} characters long"))
    if rules.expires is not None and rules.expires <= now:
        problems.append(Problem("/expires", "must be in the future"))
    if len(rules.networks) > MAX_NETWORKS:
        problems.append(Problem("/networks", f"must be at most {MAX_NETWORKS}"))
    networks = []
    for given in rules.networks[:MAX_NETWORKS]:
        try:
            networks.append(str(ipaddress.ip_network(given)))
        except ValueError as error:
            problems.append(Problem("/networks", f"must be networks such as 192.0.2.0/24: {error}"))
    if problems:
        raise ValidationFailed(problems)
    return replace(rules, networks=tuple(networks))
