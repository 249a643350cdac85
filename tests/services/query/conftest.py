"""A query service of its own for every test, in the session's Valkey."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.services.query.streams.stream_clients import Service, served
from tests.services.query.world import World, open_world


@pytest.fixture
async def world(valkey_address: str, namespace: str) -> AsyncIterator[World]:
    async with open_world(valkey_address, namespace, count_wait_ms=300) as opened:
        yield opened


@pytest.fixture
async def service(world: World) -> AsyncIterator[Service]:
    async with served(world) as running:
        yield running
