"""Shared parts of the benchmarks: the whole service, a load from wrk, and medians of its figures."""

import asyncio
import re
import shutil
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import httpx
import psutil

from libs.local_stack.servers import Addresses, Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Silence
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from tests.support.voting import Api


@asynccontextmanager
async def whole_service() -> AsyncIterator[tuple[Supervisor, Api]]:
    """As `tally up` runs it, on data of its own that is deleted afterwards."""
    data_dir = Path(tempfile.mkdtemp(prefix="tally-bench-"))
    try:
        async with Supervisor(StackSettings(data_dir=data_dir), bootstrap, port=0, any_port=True) as supervisor:
            headers = {"Authorization": f"Bearer {supervisor.stack['api_key']}"}
            base_url = supervisor.stack["base_url"]
            async with httpx.AsyncClient(base_url=base_url, headers=headers, timeout=60) as client:
                yield supervisor, Api(client)
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@asynccontextmanager
async def own_servers() -> AsyncIterator[Addresses]:
    """A Kafka and a Valkey on data of their own that is deleted afterwards."""
    data_dir = Path(tempfile.mkdtemp(prefix="tally-bench-"))
    try:
        async with Servers(StackSettings(data_dir=data_dir), report=Silence()) as servers:
            yield servers.addresses
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)


@dataclass(frozen=True)
class Load:
    """Figures of one run of wrk; times in ms."""

    per_s: float
    p50: float
    p99: float
    errors: int
    requests: int
    cpu_us: dict[str, float] = field(default_factory=dict)
    """CPU time of each server process, in microseconds a request, with what it does in the second after."""


async def wrk(url: str, script: str, connections: int, seconds: int) -> Load:
    """One thread of wrk with a Lua script. Exits with the way out where wrk is missing."""
    if shutil.which("wrk") is None:
        sys.exit("This benchmark loads with wrk: install the package wrk.")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name, url]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        text = (await process.communicate())[0].decode()
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return Load(
        per_s=float(re.findall(r"Requests/sec:\s+([\d.]+)", text)[0]),
        p50=_ms(re.findall(r"50%\s+(\S+)", text)[0]),
        p99=_ms(re.findall(r"99%\s+(\S+)", text)[0]),
        errors=int(errors[1]) if errors else 0,
        requests=int(re.findall(r"(\d+) requests in", text)[0]),
    )


SERVERS = {
    "gateway": "gateway",
    "projector": "projector",
    "valkey-server": "Valkey",
    "kafka": "Kafka",
    "peer": "peer",
}
"""The server processes by what their command lines have in them."""


async def weighed(url: str, script: str, connections: int, seconds: int) -> Load:
    """As `wrk`, with the CPU time that this process's servers took for it."""
    before = _cpu_s()
    load = await wrk(url, script, connections, seconds)
    await asyncio.sleep(1)
    used = {name: taken - before.get(name, 0.0) for name, taken in _cpu_s().items()}
    return replace(load, cpu_us={name: taken / load.requests * 1_000_000 for name, taken in used.items()})


def _cpu_s() -> dict[str, float]:
    found: dict[str, float] = {}
    for process in psutil.Process().children(recursive=True):
        try:
            command, times = " ".join(process.cmdline()), process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        name = next((name for part, name in SERVERS.items() if part in command), None)
        if name is not None:
            found[name] = found.get(name, 0.0) + times.user + times.system
    return found


def _ms(text: str) -> float:
    found = re.fullmatch(r"([\d.]+)(us|ms|s)", text)
    return float(found[1]) * {"us": 0.001, "ms": 1, "s": 1000}[found[2]] if found else float("nan")


def median(numbers: Sequence[float]) -> float:
    return statistics.median(numbers)
