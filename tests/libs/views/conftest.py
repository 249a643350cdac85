"""The real Valkey, and a partition of the vote views on it."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from redis import Redis

from libs.views.valkey.client import Coalescer, ValkeyClient, connect
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.settings import ValkeySettings
from tests.libs.views.lua_ledger import LuaLedger, load
from tests.libs.views.partition import Partition
from tests.support.vote_views import VoteViews


@pytest.fixture(scope="module")
async def valkey(servers: Any) -> AsyncIterator[ValkeyClient]:
    connection = open_valkey(servers.addresses.valkey)
    await load_functions(connection)
    yield connection
    await connection.close()


@pytest.fixture
async def partition(valkey_address: str, namespace: str) -> AsyncIterator[Partition]:
    """With its gate open."""
    valkey = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    await load_functions(valkey)
    partition = Partition(VoteViews(valkey, namespace, 1))
    await partition.fence()
    yield partition
    await valkey.close()


@pytest.fixture
def ledger(valkey_address: str, namespace: str) -> Iterator[LuaLedger]:
    """A partition for a shortest schedule."""
    with Redis.from_url(valkey_address) as redis:
        load(redis)
        lua = LuaLedger(redis, namespace)
        yield lua
        lua.clear()
