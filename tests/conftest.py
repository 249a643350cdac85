"""One real Kafka and one real Valkey for the whole session; each test has a namespace of its own in them."""

from __future__ import annotations

import os
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings as hypothesis

from services.operations.stack.report import Report
from services.operations.stack.servers import Servers
from services.operations.stack.settings import StackSettings

if TYPE_CHECKING:
    from tests.support.secured import Secured

hypothesis.register_profile("tally", deadline=None)  # a busy machine is no finding
hypothesis.load_profile("tally")


@pytest.fixture(scope="session")
async def secured(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Secured | None]:
    """With TALLY_TESTS_SECURED set, servers with TLS, SASL and ACLs, reached as the operator; else None."""
    if not os.environ.get("TALLY_TESTS_SECURED"):
        yield None
        return
    from tests.support.secured import environment, secured_servers  # noqa: PLC0415 (only where they are wanted)

    async with secured_servers(tmp_path_factory.mktemp("secured"), "t????????", "e2e????????") as running:
        with environment(running.environment("operator")):
            yield running


@pytest.fixture(scope="session")
async def servers(secured: Secured | None) -> AsyncIterator[Servers]:
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
def namespace(secured: Secured | None) -> str:
    """A prefix of topics and keys that no other test has."""
    name = f"t{uuid.uuid4().hex[:8]}"
    if secured is not None:
        secured.allow(name)
    return name
