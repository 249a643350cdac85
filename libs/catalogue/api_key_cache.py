"""In-memory cache of an environment's API keys, current within a second in every process."""

import asyncio
import hashlib
import hmac
import logging
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from ipaddress import ip_network
from typing import Final

from libs.concurrency.tasks import SingleFlight, every
from libs.contracts.catalogue_events import KeyRow, KeyRows
from libs.contracts.topics import CATALOGUE_PARTITIONS
from libs.tally.errors import ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.request_counters import KeyUses
from libs.web.door.auth import ApiKey

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
        self._parts: dict[int, KeyRows] = {}
        self._failing: set[int] = set()
        self._early = SingleFlight(self.refresh, NEW_KEY_S)

    def get(self, token: str) -> ApiKey | None:
        """Return the cached key for `token`."""
        match = _TOKEN.fullmatch(token)
        key = self._keys.get(match[1]) if match is not None else None
        if key is None or not hmac.compare_digest(key.digest, hashlib.sha256(token.encode()).digest()):
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
            self._keys = {row.key_id: _key_of(row) for held in self._parts.values() for row in held.rows or ()}


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
        row.ancestors,
    )
