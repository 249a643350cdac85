"""A gateway and a projector of one test over the run's servers, which the test may stop and restart."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap


@asynccontextmanager
async def open_own_stack(servers: Servers, data_dir: Path, partitions: int) -> AsyncIterator[Supervisor]:
    """Run the services in a namespace of their own."""
    settings = StackSettings(
        kafka_bootstrap_servers=servers.addresses.kafka,
        valkey_url=servers.addresses.valkey,
        namespace=f"own{uuid.uuid4().hex[:8]}",
        partitions=partitions,
        data_dir=data_dir,
    )
    async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
        yield supervisor
