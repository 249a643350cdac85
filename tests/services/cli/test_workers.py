"""`tally serve --workers`: processes that share a port, replaced when they end, drained together."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress

import httpx
import psutil
import pytest

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.ports import free_ports
from libs.local_stack.reaper import start_time
from tests.support.clients.commands import environment
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually

pytestmark = [pytest.mark.slow]

HEADERS = {"Connection": "close"}
"""Each request has a connection of its own, which the system gives to any worker."""


class Service:
    """A service with two workers: its process, the shared port, and the first of the workers' own."""

    def __init__(self, deployment: DeploymentAddresses) -> None:
        self.operations_port = first_of_two_ports()
        [self.port] = free_ports(1)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "services.cli", "serve", "query", "--workers", "2"],
            env={
                **os.environ,
                **environment(deployment),
                "TALLY_PORT": str(self.port),
                "TALLY_OPERATIONS_PORT": str(self.operations_port),
                "TALLY_DRAIN_DELAY_S": "0",
            },
        )

    @property
    def workers(self) -> list[psutil.Process]:
        return [child for child in psutil.Process(self.process.pid).children() if is_query(child)]

    async def status(self, port: int, path: str) -> int | None:
        """Return the status of a response; None if the connection fails."""
        async with http_client(headers=HEADERS) as client:
            with suppress(httpx.TransportError):
                return (await client.get(f"http://127.0.0.1:{port}{path}")).status_code
        return None

    async def both_answer(self) -> bool:
        ports = self.operations_port, self.operations_port + 1
        return all([await self.status(port, "/livez") == 200 for port in ports])


def first_of_two_ports() -> int:
    """Return a port that was claimed together with the next one."""
    while True:
        claimed = free_ports(100)
        for port in claimed:
            if port + 1 in claimed:
                return port


def is_query(process: psutil.Process) -> bool:
    """Return False for a process that has ended, too."""
    with suppress(psutil.Error):
        return "services.query" in process.cmdline()
    return False


@pytest.fixture
def service(deployment: DeploymentAddresses) -> Iterator[Service]:
    started = Service(deployment)
    yield started
    started.process.kill()
    started.process.wait()


async def test_workers_share_a_port_and_are_replaced_and_drained(service: Service) -> None:
    await eventually(service.both_answer)
    assert await service.status(service.port, "/livez") == 200
    assert await service.status(service.port, "/metrics") == 404, "metrics of a random worker"
    for port in (service.operations_port, service.operations_port + 1):
        assert await service.status(port, "/metrics") == 200

    lost, kept = service.workers
    lost.kill()

    async def replaced() -> bool:
        now = {worker.pid for worker in service.workers}
        return len(now) == 2 and lost.pid not in now and await service.both_answer()

    await eventually(replaced)
    assert kept.is_running()

    workers = service.workers
    service.process.send_signal(signal.SIGTERM)
    await eventually(lambda: service.process.poll() is not None)
    assert service.process.returncode == 0
    assert not any(start_time(worker.pid) for worker in workers)


async def test_workers_end_with_their_supervisor(service: Service) -> None:
    await eventually(service.both_answer)
    workers = service.workers
    service.process.kill()
    await eventually(lambda: not any(start_time(worker.pid) for worker in workers))
