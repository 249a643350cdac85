"""Issues, lists and revokes API keys, of which only the SHA-256 is stored, and checks them from memory."""

import asyncio
import hashlib
import hmac
import ipaddress
import logging
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from libs.catalogue.commands import CommandWriter, WriteRequest
from libs.catalogue.errors import UnknownKey
from libs.concurrency.tasks import SingleFlight, every
from libs.contracts.catalogue_events import (
    ACCOUNT_PATTERN,
    NO_RULES,
    ApiKey,
    ApiKeys,
    KeyAncestor,
    KeyIssued,
    KeyRevoked,
    KeyRules,
    OutcomeKind,
)
from libs.contracts.topics import CATALOGUE_PARTITIONS, catalogue_topic
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import IdempotencyKeyReused, ViewsUnavailable
from libs.tally.time_conversion import timestamp
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.request_counters import KeyUses

PERMISSIONS: Final = (
    "content:read",
    "content:write",
    "votes:write",
    "results:read",
    "results:read_hidden",
    "purchases:read",
    "purchases:write",
    "sources:write",
    "show:control",
    "operations",
    "keys:manage",
)
MAX_NAME: Final = 100
MAX_NETWORKS: Final = 100


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key; its text is stored nowhere."""

    key_id: str
    api_key: str
    account: str


async def issue_key(
    writer: CommandWriter,
    account: str,
    permissions: Iterable[str],
    rules: KeyRules = NO_RULES,
    request: WriteRequest | None = None,
    ancestors: tuple[KeyAncestor, ...] = (),
) -> IssuedKey:
    """Issue a key of 256 random bits under a random id; the first key creates its account.

    A repeated `request` issues no second key: what is returned for it is no key, and the first one is that whose
    `command_id` is the request's. Raises `ValidationFailed` for an invalid name, permission or rule,
    `IdempotencyKeyReused`, `UnknownKey` if the parent has been revoked, and the errors of `CommandWriter.record`.
    """
    rules, granted = checked_key(permissions, rules, writer.now())
    if re.fullmatch(ACCOUNT_PATTERN.rstrip("$"), account) is None:
        raise ValidationFailed(
            [Problem("/account", "must be 1 to 64 of [A-Za-z0-9_.-] and start with a letter or digit")]
        )
    request = request or WriteRequest.once()
    key_id = secrets.token_hex(8)
    api_key = f"tk_{key_id}_{secrets.token_urlsafe(32)}"
    outcome = await writer.record(
        KeyIssued(
            account=account,
            command_id=request.command_id,
            content=request.content,
            at=writer.now(),
            key_id=key_id,
            sha256=digest_of(api_key),
            permissions=granted,
            rules=rules,
            ancestors=ancestors,
        )
    )
    if outcome.content != request.content:
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    if outcome.kind is not OutcomeKind.OK:
        raise UnknownKey("The key that makes this one has been revoked.")
    return IssuedKey(key_id, api_key, account)


def digest_of(api_key: str) -> str:
    """Return the SHA-256 (hex) of a key's text, in the form in which it is stored."""
    return hashlib.sha256(api_key.encode()).hexdigest()


def checked_key(
    permissions: Iterable[str], rules: KeyRules, now: int, others: Iterable[Problem] = ()
) -> tuple[KeyRules, tuple[str, ...]]:
    """Return the rules in canonical form, and the permissions without repetitions.

    Raises `ValidationFailed` for invalid ones, with `others` first.
    """
    granted, problems = tuple(dict.fromkeys(permissions)), [*others]
    unknown = [permission for permission in granted if permission not in PERMISSIONS]
    if unknown:
        problem = f"unknown permission {unknown[0]}; allowed: {', '.join(PERMISSIONS)}"
        problems.append(Problem("/permissions", problem))
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
    return replace(rules, networks=tuple(networks)), granted


async def list_keys(views: CatalogueViews) -> list[ApiKey]:
    """Return every key of the environment, sorted by account and time of issue."""
    found = await asyncio.gather(*(views.keys(partition, "") for partition in range(CATALOGUE_PARTITIONS)))
    rows = [row for keys in found for row in keys.rows or ()]
    return sorted(rows, key=lambda row: (row.account, row.issued))


async def keys_of(views: CatalogueViews, account: str) -> list[ApiKey]:
    """Return the account's keys, newest first. Reads the account's partition only."""
    partition = catalogue_topic("").partition_of(account)
    rows = (await views.keys(partition, "")).rows or ()
    return sorted((row for row in rows if row.account == account), key=lambda row: (-row.issued, row.key_id))


def shown_key(row: ApiKey, last_used: int | None) -> dict[str, Any]:
    """Return a key without its text; `last_used` is in microseconds since 1970 UTC."""
    rules = row.rules
    return {
        "key_id": row.key_id,
        "name": rules.name,
        "permissions": row.permissions,
        "expires": timestamp(rules.expires),
        "networks": rules.networks,
        "rate": rules.rate,
        "parent": row.parent,
        "created": timestamp(row.issued),
        "last_used": timestamp(last_used),
    }


async def find_key(views: CatalogueViews, key_id: str) -> ApiKey:
    """Return the key with this id. Raises `UnknownKey`."""
    row = next((row for row in await list_keys(views) if row.key_id == key_id), None)
    if row is None:
        raise UnknownKey(f"Key {key_id} not found.")
    return row


async def revoke_key(writer: CommandWriter, row: ApiKey, keeps_descendants: bool = False) -> None:
    """Revoke a key, with all that descend from it unless `keeps_descendants`.

    Raises `UnknownKey`, and the errors of `CommandWriter.record`.
    """
    outcome = await writer.record(
        KeyRevoked(
            account=row.account,
            command_id=WriteRequest.once().command_id,
            at=writer.now(),
            key_id=row.key_id,
            keeps_descendants=keeps_descendants,
        )
    )
    if outcome.kind is not OutcomeKind.OK:
        raise UnknownKey(f"Key {row.key_id} not found.")


REFRESH_S: Final = 0.5
USES_S: Final = 30.0
NEW_KEY_S: Final = 0.1
"""Minimum interval between early refreshes that unknown keys cause."""
_TOKEN: Final = re.compile(r"tk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")

logger = logging.getLogger(__name__)


class ApiKeyCache:
    """All keys of one environment. Changes take effect within `REFRESH_S`, new keys mostly at once.

    With `uses`, keys passed to `mark_used` are stored as used within `USES_S`.
    """

    def __init__(self, views: CatalogueViews, uses: KeyUses | None = None) -> None:
        self._views = views
        self._uses = uses
        self._used: set[str] = set()
        self._keys: dict[str, ApiKey] = {}
        self._parts: dict[int, ApiKeys] = {}
        self._failing: set[int] = set()
        self._early = SingleFlight(self.refresh, NEW_KEY_S)

    def get(self, token: str) -> ApiKey | None:
        """Return the cached key for `token`."""
        match = _TOKEN.fullmatch(token)
        key = self._keys.get(match[1]) if match is not None else None
        if key is None or not hmac.compare_digest(key.sha256, digest_of(token)):
            return None
        return key

    async def find(self, token: str) -> ApiKey | None:
        """Return the key for `token`; if it is not cached, after a refresh that starts later than this call.

        Concurrent callers share a refresh, at most one per `NEW_KEY_S`. A wrong text waits for it whether or not
        its key id exists, so the time tells nothing. Raises `ViewsUnavailable` if the key was not found and a
        partition cannot be read.
        """
        if _TOKEN.fullmatch(token) is None:
            return None
        return await self._found(lambda: self.get(token))

    async def find_id(self, key_id: str) -> ApiKey | None:
        """Return the key with this id, as `find` does; the caller has authenticated its holder in another way."""
        return await self._found(lambda: self._keys.get(key_id))

    async def _found(self, get: Callable[[], ApiKey | None]) -> ApiKey | None:
        """Return what `get` finds, now or after the next early refresh."""
        if (key := get()) is not None:
            return key
        try:
            await self._early.next()
        except ViewsUnavailable:
            if (key := get()) is None:
                raise
            return key
        return get()

    def mark_used(self, key_id: str) -> None:
        self._used.add(key_id)

    async def note_uses(self) -> None:
        """Store the keys used since the last call; after a failure the next call retries them."""
        used, self._used = self._used, set()
        if self._uses is None or not used:
            return
        try:
            await self._uses.note(used)
        except ViewsUnavailable:
            self._used |= used

    async def refresh(self) -> None:
        """Apply changes from all readable partitions. Raises `ViewsUnavailable` if one cannot be read."""
        found = await asyncio.gather(*map(self._refresh, range(CATALOGUE_PARTITIONS)), return_exceptions=True)
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome

    async def check(self) -> None:
        """Health check. Raises `ViewsUnavailable` until the keys of a partition were read once."""
        if not self._parts:
            raise ViewsUnavailable("The API keys have not been read yet.")

    @asynccontextmanager
    async def refreshing(self) -> AsyncIterator[None]:
        """Refresh the cache in the background. Keys that cannot be read stay valid as cached.

        A partition whose server hangs delays no other.
        """
        partitions = range(CATALOGUE_PARTITIONS)
        loops = (
            every(REFRESH_S, lambda: partitions, self._try_refresh, "refreshing the keys failed"),
            every(USES_S, lambda: [None], lambda _: self.note_uses(), "storing the keys' uses failed"),
        )
        tasks = [asyncio.create_task(loop) for loop in loops]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.note_uses()

    async def _try_refresh(self, partition: int) -> None:
        try:
            await self._refresh(partition)
        except ViewsUnavailable as error:
            if partition not in self._failing:
                logger.warning("keys of partition %d cannot be refreshed: %s", partition, error)
            self._failing.add(partition)
        else:
            self._failing.discard(partition)

    async def _refresh(self, partition: int) -> None:
        """Apply the changes of one partition. Raises `ViewsUnavailable`."""
        held = self._parts.get(partition)
        found = await self._views.keys(partition, "" if held is None else held.version)
        if found.rows is not None:
            self._parts[partition] = found
            self._keys = {row.key_id: row for held in self._parts.values() for row in held.rows or ()}
