"""Servers of the benchmarks: the whole service, Kafka and Valkey alone, further processes."""

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

import httpx
import psutil

from libs.local_stack.child_process import Reaper
from libs.local_stack.kafka import NativeKafka
from libs.local_stack.ports import free_ports
from libs.local_stack.servers import Addresses, Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Silence
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.support.clients.voting import Api
from tests.support.eventually import eventually

START_S = 240.0
"""Time to start for a server: longer than on a quiet machine."""
END_S = 30.0
"""Time to end by itself for a process that is terminated."""


@asynccontextmanager
async def whole_service(partitions: int = 16) -> AsyncIterator[tuple[Supervisor, Api]]:
    """As `tally up` runs it, on data of its own that is deleted afterwards."""
    data_dir = Path(tempfile.mkdtemp(prefix="tally-bench-"))
    try:
        settings = StackSettings(data_dir=data_dir, stack_start_timeout_s=START_S, partitions=partitions)
        async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
            headers = {"Authorization": f"Bearer {supervisor.stack['api_key']}"}
            base_url = supervisor.stack["base_url"]
            async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=60) as client:
                yield supervisor, Api(client)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


class PlainKafka(NativeKafka):
    """Takes every client, for peers that do not log in."""

    def _properties(self) -> dict[str, object]:
        return super()._properties() | {
            "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:SASL_PLAINTEXT"
        }


@asynccontextmanager
async def own_servers(*, plain: bool = False) -> AsyncIterator[Addresses]:
    """A Kafka and a Valkey on data of their own that is deleted afterwards; with `plain` without a log-in."""
    data_dir = Path(tempfile.mkdtemp(prefix="tally-bench-"))
    try:
        async with AsyncExitStack() as opened:
            kafka = await opened.enter_async_context(_plain_kafka(data_dir / "plain")) if plain else None
            settings = StackSettings(
                data_dir=data_dir / "data", stack_start_timeout_s=START_S, kafka_bootstrap_servers=kafka
            )
            servers = await opened.enter_async_context(Servers(settings, report=Silence()))
            yield servers.addresses
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@asynccontextmanager
async def _plain_kafka(data_dir: Path) -> AsyncIterator[str]:
    port, controller_port = free_ports(2)
    reaper = Reaper()
    kafka = PlainKafka(
        port, controller_port, data_dir, data_dir / "kafka.log", reaper, report=Silence(), timeout_s=START_S
    )
    kafka.address = kafka.endpoint
    try:
        await kafka.start()
        yield kafka.address
    finally:
        await kafka.stop()
        reaper.close()


def _gateway_settings(stack: Supervisor, port: int) -> dict[str, str]:
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
async def further_gateway(
    stack: Supervisor, environment: Mapping[str, str] | None = None
) -> AsyncIterator[tuple[str, int]]:
    """Another gateway of the same service: its address and process id, once it is ready."""
    [port] = free_ports(1)
    settings = _gateway_settings(stack, port)
    command = [sys.executable, "-m", "services.gateway"]
    url = f"http://127.0.0.1:{port}"

    async def ready() -> bool:
        async with httpx.AsyncClient() as client:
            try:
                return (await client.get(f"{url}/readyz")).status_code == 200
            except httpx.TransportError:
                return False

    async with process(command, settings | dict(environment or {})) as started:
        await eventually(ready, deadline_s=START_S)
        yield url, started.pid


@asynccontextmanager
async def uvicorn(app: str, workers: int = 1, **environment: str) -> AsyncIterator[tuple[str, int]]:
    """An ASGI application served as its users would: its address and process id, once it listens."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--workers", str(workers)]
    async with process([*command, "--log-level", "warning", "--no-access-log"], environment) as started:
        await eventually(lambda: listens(port), deadline_s=START_S)
        yield f"http://127.0.0.1:{port}", started.pid


@asynccontextmanager
async def process(
    command: list[str], environment: Mapping[str, str] | None = None, log: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is terminated at the end; its output goes to the file `log`, or to this process's."""
    with ExitStack() as files:
        output = files.enter_context(log.open("wb")) if log else None
        started = await asyncio.create_subprocess_exec(
            *command, env=os.environ | dict(environment or {}), stdout=output, stderr=output
        )
        try:
            yield started
        finally:
            await _end(started)


async def _end(started: asyncio.subprocess.Process) -> None:
    """Terminate it, and kill what is left of it and of its children."""
    if started.returncode is None:
        children = psutil.Process(started.pid).children(recursive=True)
        started.terminate()
        try:
            await asyncio.wait_for(started.wait(), END_S)
        except TimeoutError:
            started.kill()
        for child in children:
            with suppress(psutil.NoSuchProcess):
                child.kill()
    await started.wait()


async def listens(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True
