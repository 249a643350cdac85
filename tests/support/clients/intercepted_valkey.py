"""Clients between the views and the real Valkey: a test overrides `call`."""

from collections import Counter
from collections.abc import Hashable
from typing import Any

from libs.views.valkey.client import Shard, Valkey


def plain_name(function: str) -> str:
    """Return the name of a loaded function without its version."""
    return function.rpartition("_")[0]


class InterceptedValkey:
    """Passes each call to the client of one server."""

    is_cluster = False

    def __init__(self, valkey: Valkey) -> None:
        self._valkey = valkey

    async def shards(self) -> list[Shard]:
        return [Shard(self, [(0, 16_383)])]

    def server_of(self, key: str) -> Hashable:
        return self

    async def call(self, *command: Any) -> Any:
        return await self._valkey.call(*command)


class CountedValkey(InterceptedValkey):
    """Counts the calls of each function."""

    def __init__(self, valkey: Valkey) -> None:
        super().__init__(valkey)
        self.calls: Counter[str] = Counter()

    async def call(self, *command: Any) -> Any:
        if command[0] in ("FCALL", "FCALL_RO"):
            self.calls[plain_name(command[1])] += 1
        return await super().call(*command)
