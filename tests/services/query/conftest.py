"""A query service of its own for every test, in the session's Valkey."""

from collections.abc import AsyncIterator

import pytest

from tests.services.query.query_environment import QueryEnvironment, open_environment
from tests.services.query.streams.stream_clients import Service, served


@pytest.fixture
async def env(valkey_address: str, namespace: str) -> AsyncIterator[QueryEnvironment]:
    async with open_environment(valkey_address, namespace, count_wait_ms=60_000) as opened:
        yield opened


@pytest.fixture
async def service(env: QueryEnvironment) -> AsyncIterator[Service]:
    async with served(env) as running:
        yield running


@pytest.fixture
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes show in the next answer."""
    monkeypatch.setattr("services.query.timeline_endpoint.MOST_HELD_S", 0.0)
