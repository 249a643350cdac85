"""When API keys were last used, to the minute: no part of the log, and worth no more than a Valkey keeps."""

import time
from collections.abc import Collection
from typing import Final

from libs.views.client import Valkey

MINUTE_S: Final = 60


class KeyUses:
    """The last uses of one namespace's keys."""

    def __init__(self, valkey: Valkey, namespace: str) -> None:
        self._valkey = valkey
        self._name = f"{namespace}:key_uses"

    async def note(self, key_ids: Collection[str]) -> None:
        """They are in use now. Raises `ViewsUnavailable`."""
        minute = int(time.time()) // MINUTE_S
        await self._valkey.call("HSET", self._name, *(part for key_id in key_ids for part in (key_id, minute)))

    async def last(self) -> dict[str, int]:
        """Microseconds since 1970 UTC at which the minute of its last use began, by key. Raises as `note`."""
        flat = await self._valkey.call("HGETALL", self._name)
        pairs = flat.items() if isinstance(flat, dict) else zip(flat[::2], flat[1::2], strict=True)
        return {key_id.decode(): int(minute) * MINUTE_S * 1_000_000 for key_id, minute in pairs}

    async def forget(self, key_id: str) -> None:
        """Raises as `note`."""
        await self._valkey.call("HDEL", self._name, key_id)
