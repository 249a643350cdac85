"""Idempotency keys of requests whose effect is idempotent by itself, with the content that each was used for."""

from typing import Final

from libs.views.client import Valkey

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
