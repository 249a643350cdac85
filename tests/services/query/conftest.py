"""A query service of its own for every test, in the session's Valkey."""

from collections.abc import AsyncIterator

import pytest

from libs.tally.contest import MILLION
from services.query.streams import counting_lag
from tests.services.query.query_environment import QueryEnvironment, open_environment, song
from tests.services.query.streams.stream_clients import STREAM, Service, Stream, served


@pytest.fixture(autouse=True)
def the_log_never_counts_as_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests have no Kafka: streams would say that counting stopped, some seconds after the first listens."""
    monkeypatch.setattr(counting_lag, "STOPPED_US", 3600 * MILLION)


@pytest.fixture
async def env(valkey_address: str, namespace: str) -> AsyncIterator[QueryEnvironment]:
    async with open_environment(valkey_address, namespace, count_wait_ms=60_000) as opened:
        yield opened


@pytest.fixture
async def key(env: QueryEnvironment) -> str:
    """A key that may do everything with the running contest `song` of the participants a and b."""
    return await song(env)


@pytest.fixture
async def service(env: QueryEnvironment) -> AsyncIterator[Service]:
    async with served(env) as running:
        yield running


@pytest.fixture
async def stream(service: Service, key: str) -> AsyncIterator[Stream]:
    """Of the contest `song`, after the first counts."""
    async with service.listen(STREAM, key) as stream:
        await stream.next("counts")
        yield stream


@pytest.fixture
def nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """Votes show in the next answer."""
    monkeypatch.setattr("services.query.timeline_endpoint.MOST_HELD_S", 0.0)
