"""A gateway and a projector that start before all others wait, and work once what they wait for is there."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from libs.contracts.topics import VotesLog
from libs.deployment.identity import create_deployment
from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.child_process import Reaper
from libs.local_stack.data_dir import DataDir
from libs.local_stack.ports import free_ports
from libs.local_stack.servers import Addresses, Servers, choose
from libs.local_stack.settings import StackSettings, Topology
from libs.local_stack.startup_report import Silence
from libs.storage.object_store import open_store
from services.cli import bootstrap
from tests.support.clients import commands
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually

pytestmark = [pytest.mark.stack, pytest.mark.slow]

PARTITIONS = 2


class Process:
    """A service in a process of its own, asked at its port for operators."""

    def __init__(self, name: str, port: int, log: Path, environment: dict[str, str]) -> None:
        self._log = log
        self._url = f"http://127.0.0.1:{port}"
        with log.open("wb") as output:
            command = [sys.executable, "-m", f"services.{name}"]
            self._process = subprocess.Popen(command, env=os.environ | environment, stdout=output, stderr=output)

    def said(self) -> str:
        return self._log.read_text()

    async def says(self, text: str) -> None:
        await eventually(lambda: text in self.said())

    async def status(self, path: str) -> int:
        assert self._process.poll() is None, self.said()
        try:
            async with http_client(base_url=self._url) as client:
                return (await client.get(path)).status_code
        except httpx.TransportError:
            return 0

    async def is_alive_and_not_ready(self) -> bool:
        return (await self.status("/livez"), await self.status("/readyz")) == (200, 503)

    async def is_ready(self) -> bool:
        return await self.status("/readyz") == 200

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@asynccontextmanager
async def both(tmp_path: Path, deployment: DeploymentAddresses) -> AsyncIterator[list[Process]]:
    port, operations_port, metrics_port = free_ports(3)
    environment = commands.environment(deployment) | {
        "TALLY_PORT": str(port),
        "TALLY_OPERATIONS_PORT": str(operations_port),
        "TALLY_METRICS_PORT": str(metrics_port),
        "TALLY_LOG_FORMAT": "text",
    }
    processes = [
        Process("gateway", operations_port, tmp_path / "gateway.log", environment),
        Process("projector", metrics_port, tmp_path / "projector.log", environment),
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.end()


def settings_in(tmp_path: Path) -> StackSettings:
    return StackSettings(
        data_dir=tmp_path / "data",
        stack="native",
        valkey_fsync="no",
        kafka_bootstrap_servers=None,
        valkey_url=None,
    )


def later_addresses(settings: StackSettings) -> Addresses:
    """Return the addresses that servers will have."""
    data_dir, reaper = DataDir(settings.data_dir), Reaper()
    data_dir.open()
    groups = choose(settings, Topology.of(settings, data_dir.path), data_dir.path, reaper, Silence())
    reaper.close()
    data_dir.close()
    return Addresses(groups["kafka"].address, groups["valkey"].address)


async def test_both_wait_for_servers_and_topics_and_say_for_what(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    addresses, objects = later_addresses(settings), str(tmp_path / "objects")
    deployment = DeploymentAddresses(addresses.kafka, addresses.valkey, "waiting", PARTITIONS, objects, {})
    async with both(tmp_path, deployment) as processes:
        for process in processes:
            await eventually(process.is_alive_and_not_ready)
            await process.says("waiting: The log cannot be reached")
        async with Servers(settings, report=Silence()) as servers:
            assert servers.addresses == addresses
            for process in processes:
                await process.says("waiting: topic waiting.votes does not exist")
                await process.says("run `tally topics create`")
                assert await process.is_alive_and_not_ready()
            votes = VotesLog("waiting", PARTITIONS)
            await create_deployment(deployment.kafka_settings, votes, open_store(objects))
            for process in processes:
                await eventually(process.is_ready)
                assert "Traceback" not in process.said()
            issued = await bootstrap.development_credentials(deployment)
            assert issued["api_key"].startswith("tk_")
