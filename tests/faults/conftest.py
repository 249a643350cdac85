"""A gateway and a projector over the run's servers, for tests that kill them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from tests.support.own_stack import open_own_stack

PARTITIONS = 4


@pytest.fixture
async def stack(servers: Servers, tmp_path: Path) -> AsyncIterator[Supervisor]:
    """Services of one test, which the other tests do not miss while they are down."""
    async with open_own_stack(servers, tmp_path, PARTITIONS) as supervisor:
        yield supervisor
