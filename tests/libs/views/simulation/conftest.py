"""The ledgers of the shortest schedules: the model, and the one in Valkey."""

from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua_ledger import LuaLedger, load
from tests.libs.views.simulation.model_ledger import ModelLedger


@pytest.fixture(params=["model", pytest.param("lua", marks=pytest.mark.servers)])
def ledger(request: Any, namespace: str) -> Iterator[Ledger]:
    if request.param == "model":
        yield ModelLedger()
        return
    with Redis.from_url(request.getfixturevalue("valkey_address")) as redis:
        load(redis)
        lua = LuaLedger(redis, namespace)
        yield lua
        lua.clear()
