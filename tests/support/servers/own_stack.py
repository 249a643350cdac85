"""A gateway and a projector over the run's servers, which a test may stop and restart."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from libs.local_stack.servers import Servers
from libs.local_stack.service_process import PARTS
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.support.servers.deployments import FEW_PARTITIONS

if TYPE_CHECKING:
    from tests.support.servers.secured import Secured


@asynccontextmanager
async def open_own_stack(
    servers: Servers,
    data_dir: Path,
    partitions: int = FEW_PARTITIONS,
    *,
    secured: Secured | None = None,
    **settings: Any,
) -> AsyncIterator[Supervisor]:
    """Run the services in a namespace of their own; other `settings` are those of `StackSettings`."""
    namespace = f"e2e{uuid.uuid4().hex[:8]}"
    if secured is not None:
        secured.allow(namespace)
    parts = PARTS if secured is None else secured.parts(PARTS)
    given = {
        "kafka_bootstrap_servers": servers.addresses.kafka,
        "valkey_url": servers.addresses.valkey,
        "namespace": namespace,
        "partitions": partitions,
        "data_dir": data_dir,
    }
    stack = StackSettings(**{**given, **settings})
    async with Supervisor(stack, bootstrap, port=0, any_port=True, parts=parts) as supervisor:
        yield supervisor
