"""A whole service with its own views, which these tests corrupt, rebuild and swap."""

import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.services.cli.replay.context import ReplayContext
from tests.support.http_clients import http_client
from tests.support.voting import Api

PARTITIONS = 4


@pytest.fixture(scope="package")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Gateway and projector over the session's Kafka and Valkey."""
    settings = StackSettings(
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=servers.addresses.valkey,
        namespace=f"replay{uuid.uuid4().hex[:8]}",
        partitions=PARTITIONS,
        data_dir=Path(tmp_path_factory.mktemp("replay")),
    )
    async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    headers = {"Authorization": f"Bearer {stack.stack['api_key']}"}
    async with http_client(base_url=stack.stack["base_url"], headers=headers, timeout=30) as client:
        yield Api(client)


@pytest.fixture
async def context(stack: Supervisor) -> AsyncIterator[ReplayContext]:
    """The context of an operator, with live generations only."""
    async with ReplayContext.open(stack) as context:
        await context.run("replay", "drop", "--execute")
        yield context
