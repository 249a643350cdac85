"""The whole service, as `tally up` runs it, once for the session; each test makes contests of its own."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from services.operations import prepare
from services.operations.stack.servers import Servers
from services.operations.stack.settings import StackSettings
from services.operations.stack.supervisor import Supervisor
from tests.support.voting import Api


@pytest.fixture(scope="session")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Gateway and projector over the session's Kafka and Valkey, in a namespace of their own."""
    settings = StackSettings(
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=servers.addresses.valkey,
        namespace=f"e2e{uuid.uuid4().hex[:8]}",
        data_dir=Path(tmp_path_factory.mktemp("stack")),
    )
    async with Supervisor(settings, prepare, port=0, any_port=True) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    description = stack.stack
    async with httpx.AsyncClient(
        base_url=description["base_url"],
        headers={"Authorization": f"Bearer {description['api_key']}"},
        timeout=30,
    ) as client:
        yield Api(client)
