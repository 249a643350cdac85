"""Time from `tally up` to ready, on data of a run before: `python -m tests.benchmarks.bench_start [rounds]`."""

import asyncio
import shutil
import sys
import tempfile
import time
from pathlib import Path

import httpx

from libs.local_stack.ports import free_ports
from tests.benchmarks.alone import alone
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import process

READY_S = 120.0
GOAL_S = 5.0


async def measure(scale: Scale) -> list[Measurement]:
    data_dir = Path(tempfile.mkdtemp(prefix="tally-bench-"))
    try:
        first = await started(data_dir)
        again = [await started(data_dir) for _ in range(scale.rounds)]
    finally:
        shutil.rmtree(data_dir, ignore_errors=True)
    return [
        Measurement("the second time", "s", "lower", Party(OURS, again), goals=[Goal(GOAL_S)]),
        Measurement("the first time, with its jars in the cache", "s", "lower", Party(OURS, [first])),
    ]


async def started(data_dir: Path) -> Run:
    """Start all and stop again: the seconds until `/readyz` answers 200."""
    [port] = free_ports(1)
    command = [sys.executable, "-m", "services.cli", "up", "--data-dir", str(data_dir), "--port", str(port)]
    begun = time.perf_counter()
    with tempfile.NamedTemporaryFile() as file:
        async with process([*command, "--no-browser"], log=Path(file.name)) as running:
            async with httpx.AsyncClient() as client:
                while not await is_ready(client, port):
                    if running.returncode is not None or time.perf_counter() - begun > READY_S:
                        raise RuntimeError(file.read().decode()[-300:])
                    await asyncio.sleep(0.02)
            return Run(time.perf_counter() - begun)


async def is_ready(client: httpx.AsyncClient, port: int) -> bool:
    try:
        return (await client.get(f"http://127.0.0.1:{port}/readyz")).status_code == 200
    except httpx.TransportError:
        return False


if __name__ == "__main__":
    alone("Start", measure)
