"""A partition of the vote views on the real Valkey."""

from collections.abc import AsyncIterator

import pytest

from libs.views.client import Coalescer, connect
from libs.views.functions import load_functions
from libs.views.settings import ValkeySettings
from libs.views.vote_views import VoteViews
from tests.libs.views.simulation.lua_partition import Partition


@pytest.fixture
async def partition(valkey_address: str, namespace: str) -> AsyncIterator[Partition]:
    """With its gate open."""
    valkey = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    await load_functions(valkey)
    partition = Partition(VoteViews(valkey, namespace, 1))
    await partition.fence()
    yield partition
    await valkey.close()
