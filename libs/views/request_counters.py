"""Request counters shared by all processes, for rate limits."""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Final

from libs.views.client import Valkey

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
