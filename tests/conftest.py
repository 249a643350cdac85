"""One real Kafka and one real Valkey for the whole session; each test has a namespace of its own in them."""

from __future__ import annotations

import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from services.operations.stack.report import Report
from services.operations.stack.servers import Servers
from services.operations.stack.settings import StackSettings


@pytest.fixture(scope="session")
async def servers() -> AsyncIterator[Servers]:
    """Started by the first test that asks. With TALLY_KAFKA_BOOTSTRAP_SERVERS and TALLY_VALKEY_URL set, those."""
    data_dir = Path(tempfile.mkdtemp(prefix="tally-tests-"))
    settings = StackSettings(data_dir=data_dir, valkey_fsync="no")
    try:
        async with Servers(settings, report=Report()) as running:
            yield running
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@pytest.fixture
def kafka(servers: Servers) -> str:
    """The bootstrap address, `host:port`."""
    return servers.addresses.kafka


@pytest.fixture
def valkey_address(servers: Servers) -> str:
    """A `redis://` URL."""
    return servers.addresses.valkey


@pytest.fixture
def namespace() -> str:
    """A prefix of topics and keys that no other test has."""
    return f"t{uuid.uuid4().hex[:8]}"
