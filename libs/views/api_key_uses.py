"""Times of the last use of API keys, to the minute: stored only in Valkey, not in the log."""

import time
from collections.abc import Collection, Sequence
from typing import Final

from libs.views.client import Valkey

MINUTE_S: Final = 60
PAGE: Final = 250
"""Approximate number of keys read by one call."""


class KeyUses:
    """The last uses of one namespace's keys."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._name = f"{namespace}:key_uses"

    async def note(self, key_ids: Collection[str]) -> None:
        """Store the current minute as the last use of these keys. Raises `ViewsUnavailable`."""
        minute = int(time.time()) // MINUTE_S
        await self._valkey.call("HSET", self._name, *(part for key_id in key_ids for part in (key_id, minute)))

    async def last(self) -> dict[str, int]:
        """Return the minute of the last use by key, in microseconds since 1970 UTC. Raises as `note`."""
        found: dict[str, int] = {}
        cursor = b"0"
        while True:
            cursor, flat = await self._valkey.call("HSCAN", self._name, cursor, "COUNT", PAGE)
            pairs = zip(flat[::2], flat[1::2], strict=True)
            found |= {key_id.decode(): int(minute) * MINUTE_S * 1_000_000 for key_id, minute in pairs}
            if cursor == b"0":
                return found

    async def last_of(self, key_ids: Sequence[str]) -> dict[str, int]:
        """Return the same for these keys only. Raises as `note`."""
        if not key_ids:
            return {}
        minutes = await self._valkey.call("HMGET", self._name, *key_ids)
        found = zip(key_ids, minutes, strict=True)
        return {key_id: int(minute) * MINUTE_S * 1_000_000 for key_id, minute in found if minute is not None}

    async def forget(self, key_id: str) -> None:
        """Delete the last use of a key. Raises as `note`."""
        await self._valkey.call("HDEL", self._name, key_id)
