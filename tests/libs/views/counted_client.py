"""A client of the real Valkey that counts the calls of functions."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from libs.tally.errors import ViewsUnavailable
from libs.views.client import Coalescer, Shard, ValkeyClient
from libs.views.function_libraries import plain_name
from libs.views.functions import load_functions, open_valkey


class CountedClient:
    """Counts the calls of each function, and the partitions that they read; `away` fails them."""

    is_cluster = False

    def __init__(self, valkey: ValkeyClient) -> None:
        self._valkey = valkey
        self.calls: Counter[str] = Counter()
        self.read: list[int] = []
        self.away: set[str] = set()

    async def shards(self) -> list[Shard]:
        return [Shard(self, [])]

    def server_of(self, key: str) -> object:
        return self._valkey.server_of(key)

    async def call(self, *command: Any) -> Any:
        function = plain_name(command[1])
        self.calls[function] += 1
        if function in self.away:
            raise ViewsUnavailable("away")
        if function in ("votes_positions", "votes_doubts"):
            self.read.append(len(command) - 3)
        return await self._valkey.call(*command)


@asynccontextmanager
async def counted_client(address: str) -> AsyncIterator[CountedClient]:
    """Open one that has loaded the functions."""
    client = open_valkey(address)
    assert isinstance(client, Coalescer)
    await load_functions(client)
    try:
        yield CountedClient(client)
    finally:
        await client.close()
