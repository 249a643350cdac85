"""State of requests that all processes share: rates, idempotency keys, and the last uses of API keys."""

import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from hashlib import blake2b
from typing import Final

from libs.views.valkey.client import Valkey

NAME_BYTES: Final = 16

Secrets = Callable[[], Awaitable[tuple[bytes, ...]]]


class RateCounters:
    """Counters of one namespace. Their loss only resets callers' limits.

    A counter's name is hashed with the last of `secrets`: no caller can find another one with the same counter,
    and Valkey holds no address.
    """

    def __init__(self, valkey: Valkey, namespace: str, secrets: Secrets) -> None:
        self._valkey = valkey
        self._namespace = namespace
        self._secrets = secrets

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int:
        """Add to the counter of `name` in a time window; return its new value.

        Raises `ViewsUnavailable`, and the errors of `secrets`.
        """
        secret = (await self._secrets())[-1]
        hashed = blake2b(name.encode(), key=secret, digest_size=NAME_BYTES).hexdigest()
        key = f"{self._namespace}:rates:{window}:{name.partition(':')[0]}:{hashed}"
        total: int = await self._valkey.call("INCRBY", key, count)
        if total == count:
            await self._valkey.call("EXPIRE", key, kept_s)
        return total


KEPT_S: Final = 24 * 3600


class RequestKeys:
    """The keys of one namespace; each is kept for 24 hours."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    async def claim(self, name: str, content: str) -> str | None:
        """Store `content` for `name`; return the content already stored, or None. Raises `ViewsUnavailable`."""
        key = f"{self._namespace}:requests:{name}"
        if await self._valkey.call("SET", key, content, "NX", "EX", KEPT_S):
            return None
        earlier = await self._valkey.call("GET", key)
        return None if earlier is None else earlier.decode()


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
