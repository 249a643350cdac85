"""The real Valkey, and a partition of the vote views on it."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.views.client import Coalescer, ValkeyClient, connect
from libs.views.function_loading import load_functions, open_valkey
from libs.views.settings import ValkeySettings
from libs.views.vote_views import VoteViews
from tests.libs.views.simulation.lua_partition import Partition


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
