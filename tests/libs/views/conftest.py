"""The real Valkey, and a partition of the vote views on it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis

from libs.views.valkey.client import ValkeyClient
from tests.libs.views.lua_ledger import LuaLedger, load
from tests.libs.views.partition import Partition
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.loaded_valkey import loaded_valkey


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[ValkeyClient]:
    async with loaded_valkey(servers.addresses.valkey) as client:
        yield client


@pytest.fixture
async def partition(valkey: ValkeyClient, namespace: str) -> Partition:
    """With its gate open."""
    partition = Partition(VoteViews(valkey, namespace, 1))
    await partition.fence()
    return partition


@pytest.fixture
def ledger(valkey_address: str, namespace: str) -> Iterator[LuaLedger]:
    """A partition for a shortest schedule."""
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        lua = LuaLedger(redis, namespace)
        yield lua
        lua.clear()
