"""The API keys of a world, known in memory to every process within a second."""

import asyncio
import hashlib
import hmac
import logging
import re
import time
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, Protocol

from libs.catalogue.api_keys import KeyReader
from libs.contracts.catalogue import KeyRow, KeyRows
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.tally.errors import ViewsUnavailable

REFRESH_S: Final = 0.5
USES_S: Final = 30.0
NEW_KEY_S: Final = 0.1
"""How often, at most, unknown keys make a process look before its time."""
_TOKEN: Final = re.compile(r"tk_([0-9a-f]{16})_[A-Za-z0-9_-]{43}")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApiKey:
    """A key as its holder's requests see it."""

    key_id: str
    account: str
    permissions: frozenset[str]
    digest: bytes
    rate: int | None = None
    expires: int | None = None
    networks: tuple[IPv4Network | IPv6Network, ...] = ()


class UseRecorder(Protocol):
    """Needed to keep when keys were last used."""

    async def note(self, key_ids: Collection[str]) -> None:
        """They are in use now. Raises `ViewsUnavailable`."""


class ApiKeyCache:
    """All keys of one world, in memory. New and revoked keys hold after `REFRESH_S`, new ones mostly at once.

    With `uses`, those that `mark_used` names are kept as used, `USES_S` later at most.
    """

    def __init__(self, views: KeyReader, uses: UseRecorder | None = None) -> None:
        self._views = views
        self._uses = uses
        self._used: set[str] = set()
        self._noted_at = 0.0
        self._keys: dict[str, ApiKey] = {}
        self._parts: dict[int, KeyRows] = {}
        self._looking: asyncio.Task[None] | None = None

    def get(self, token: str) -> ApiKey | None:
        """The key that `token` is, by what is in memory."""
        match = _TOKEN.fullmatch(token)
        key = self._keys.get(match[1]) if match is not None else None
        if key is None or not hmac.compare_digest(key.digest, hashlib.sha256(token.encode()).digest()):
            return None
        return key

    async def find(self, token: str) -> ApiKey | None:
        """The same; for a key that is not in memory, after a look that began later than this call.

        Looks of concurrent callers are one, and at most one in `NEW_KEY_S`. Raises `ViewsUnavailable` for a key
        that was not found while a partition, in which it may be, cannot be read.
        """
        match = _TOKEN.fullmatch(token)
        if match is not None:
            await self.find_id(match[1])
        return self.get(token)

    async def find_id(self, key_id: str) -> ApiKey | None:
        """The key of this id, found as by `find`; the caller has proof of another kind that it is his."""
        if key_id not in self._keys:
            if self._looking is None:
                self._looking = asyncio.create_task(self._look())
            try:
                await asyncio.shield(self._looking)
            except ViewsUnavailable:
                if key_id not in self._keys:
                    raise
        return self._keys.get(key_id)

    def mark_used(self, key_id: str) -> None:
        self._used.add(key_id)

    async def note_uses(self) -> None:
        """Write which keys were used since the last time; what cannot be written waits for the next."""
        used, self._used, self._noted_at = self._used, set(), time.monotonic()
        if self._uses is None or not used:
            return
        try:
            await self._uses.note(used)
        except ViewsUnavailable:
            self._used |= used

    async def refresh(self) -> None:
        """Take over what has changed, of all partitions that can be read. Raises `ViewsUnavailable` for others."""
        found = await asyncio.gather(*map(self._refresh, range(CATALOGUE_PARTITIONS)), return_exceptions=True)
        if any(outcome is True for outcome in found):
            self._keys = {row.key_id: _key_of(row) for held in self._parts.values() for row in held.rows or ()}
        for outcome in found:
            if isinstance(outcome, BaseException):
                raise outcome

    async def check(self) -> None:
        """For health checks: raises `ViewsUnavailable` until the keys of every partition were read once."""
        if len(self._parts) < CATALOGUE_PARTITIONS:
            raise ViewsUnavailable("The API keys were not read yet.")

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """`run` beside the caller's own work."""
        running = asyncio.create_task(self.run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            await self.note_uses()

    async def run(self) -> None:
        """Keep the ring fresh until cancelled. What cannot be read goes on holding as it is known."""
        said = False
        while True:
            try:
                await self.refresh()
            except ViewsUnavailable as error:
                if not said:
                    logger.warning("keys cannot be refreshed: %s", error)
                said = True
            except Exception:
                logger.exception("refreshing the keys failed")
            else:
                said = False
            if time.monotonic() - self._noted_at >= USES_S:
                await self.note_uses()
            await asyncio.sleep(REFRESH_S)

    async def _look(self) -> None:
        """Waits first: those who come meanwhile share the look, and it begins after they asked."""
        await asyncio.sleep(NEW_KEY_S)
        self._looking = None
        await self.refresh()

    async def _refresh(self, partition: int) -> bool:
        """Whether the partition's keys have changed."""
        held = self._parts.get(partition)
        found = await self._views.keys(partition, "" if held is None else held.version)
        if found.rows is None:
            return False
        self._parts[partition] = found
        return True


def _key_of(row: KeyRow) -> ApiKey:
    rules = row.rules
    return ApiKey(
        row.key_id,
        row.account,
        frozenset(row.permissions),
        bytes.fromhex(row.sha256),
        rules.rate,
        rules.expires,
        tuple(map(ip_network, rules.networks)),
    )
