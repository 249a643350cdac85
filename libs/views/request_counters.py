"""Request counters shared by all processes, for rate limits."""

from hashlib import sha256

from libs.views.client import Valkey

NAME_BYTES = 3
"""Length of a hashed name. Each hash stands for 256 IPv4 addresses on average, so it reveals no address.
Collisions are rare: a counter lives for seconds, and few callers have one at a time."""


class RateCounters:
    """Counters of one namespace. Their loss only resets callers' limits."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int:
        """Add to the counter of `name` in a time window; return its new value. Raises `ViewsUnavailable`."""
        hashed = sha256(name.encode()).digest()[:NAME_BYTES].hex()
        key = f"{self._namespace}:rates:{window}:{name.partition(':')[0]}:{hashed}"
        total: int = await self._valkey.call("INCRBY", key, count)
        if total == count:
            await self._valkey.call("EXPIRE", key, kept_s)
        return total
