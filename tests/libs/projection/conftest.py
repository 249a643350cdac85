"""The real Valkey with its functions."""

from collections.abc import AsyncIterator

import pytest

from libs.views.valkey.client import ValkeyClient
from tests.support.servers.loaded_valkey import loaded_valkey


@pytest.fixture
async def valkey(valkey_address: str) -> AsyncIterator[ValkeyClient]:
    async with loaded_valkey(valkey_address) as client:
        yield client
