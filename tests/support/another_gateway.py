"""A second gateway over the servers of a running stack, as a process of its own."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from libs.local_stack.ports import free_ports
from libs.local_stack.supervisor import Supervisor
from tests.support.http_clients import http_client


def gateway_settings(stack: Supervisor, port: int) -> dict[str, str]:
    """Return the environment of a gateway of this stack's service at another port."""
    described = stack.stack
    return {
        "TALLY_KAFKA_BOOTSTRAP_SERVERS": described["kafka"],
        "TALLY_VALKEY_URL": described["valkey"],
        "TALLY_NAMESPACE": described["namespace"],
        "TALLY_PARTITIONS": str(described["partitions"]),
        "TALLY_STORAGE_URL": described["storage_url"],
        "TALLY_PORT": str(port),
    }


@asynccontextmanager
async def another_gateway(stack: Supervisor, log: Path, **changes: str) -> AsyncIterator[httpx.AsyncClient]:
    """Start it with other settings if `changes` has some; yield a client of it, which may not be ready yet."""
    [port] = free_ports(1)
    environment = gateway_settings(stack, port) | {"TALLY_DRAIN_DELAY_S": "0"}
    with log.open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "services.gateway", env={**os.environ, **environment, **changes}, stderr=stderr
        )
    headers = {"Authorization": f"Bearer {stack.stack['api_key']}"}
    try:
        async with http_client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=30) as client:
            yield client
            assert process.returncode is None
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
