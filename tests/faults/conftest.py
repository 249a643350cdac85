"""A gateway and a projector over the run's servers, for tests that kill them."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap

PARTITIONS = 4


@pytest.fixture
async def stack(servers: Servers, tmp_path: Path) -> AsyncIterator[Supervisor]:
    """Services of one test, which the other tests do not miss while they are down."""
    settings = StackSettings(
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=servers.addresses.valkey,
        namespace=f"f{uuid.uuid4().hex[:8]}",
        partitions=PARTITIONS,
        data_dir=tmp_path,
    )
    async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
        yield supervisor
