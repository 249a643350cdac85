"""Request counts that all processes share, for rate limits."""

from hashlib import sha256

from libs.views.client import Valkey

NAME_BYTES = 3
"""A counter lives for seconds, and few callers have one at a time. So few bytes stand for 256 IPv4 addresses each:
no address can be read from them."""


class RateCounters:
    """Counters of one namespace. Losing them gives callers a fresh allowance, and nothing else."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._namespace = namespace

    async def add(self, name: str, window: int, count: int, kept_s: int) -> int:
        """Add to the counter of `name` in a window of time; its new value. Raises `ViewsUnavailable`."""
        hashed = sha256(name.encode()).digest()[:NAME_BYTES].hex()
        key = f"{self._namespace}:rates:{window}:{name.partition(':')[0]}:{hashed}"
        total: int = await self._valkey.call("INCRBY", key, count)
        if total == count:
            await self._valkey.call("EXPIRE", key, kept_s)
        return total
