"""A whole service with its own views, which these tests corrupt, rebuild and swap."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.services.cli.replay.context import ReplayContext
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api
from tests.support.servers.own_stack import open_own_stack


@pytest.fixture(scope="package")
async def stack(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Gateway and projector over the session's Kafka and Valkey."""
    async with open_own_stack(servers, Path(tmp_path_factory.mktemp("replay"))) as supervisor:
        yield supervisor


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """The API with the development key, which has every permission."""
    async with development_client(stack.stack) as client:
        yield Api(client)


@pytest.fixture
async def context(stack: Supervisor) -> AsyncIterator[ReplayContext]:
    """The context of an operator, with live generations only."""
    async with ReplayContext.open(stack) as context:
        await context.run("replay", "drop", "--execute")
        yield context
