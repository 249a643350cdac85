"""A partition of the vote views on the real Valkey, whose calls are counted."""

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.views.client import Coalescer, Valkey, connect
from libs.views.functions import load_functions
from libs.views.serialization import unpack
from libs.views.settings import ValkeySettings
from libs.views.votes import VoteViews
from tests.libs.views.simulation.partition import Partition


class Counted:
    """Counts the calls of each function; of look-ups also the votes that are looked up, as `votes`."""

    def __init__(self, valkey: Valkey) -> None:
        self._valkey = valkey
        self.calls: Counter[str] = Counter()

    async def call(self, *command: Any) -> Any:
        self.calls[command[1]] += 1
        if command[1] == "votes_lookup":
            self.calls["votes"] += len(unpack(command[4]))
        return await self._valkey.call(*command)


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[Counted]:
    connection = Coalescer(connect(ValkeySettings(valkey_url=valkey_address)))
    await load_functions(connection)
    yield Counted(connection)
    await connection.close()


@pytest.fixture
async def partition(valkey: Counted, namespace: str) -> Partition:
    """With its gate open."""
    partition = Partition(VoteViews(valkey, namespace))
    await partition.fence()
    valkey.calls.clear()
    return partition
