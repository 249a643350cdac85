"""The servers of one test run: a process that runs them for all workers, and their addresses for a worker.

The first worker that needs servers starts the process. It ends with the run: when the controller stops it, or when
the controller has ended in any way.
"""

import asyncio
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import psutil
from filelock import FileLock

from libs.local_stack.reaper import start_time
from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report

START_S, STOP_S, POLL_S = 180.0, 180.0, 0.1
"""In seconds; the first start on a machine downloads the jars, the end deletes thousands of logs."""
CPU_TIME: Final = "cpu_s"
"""The file with the CPU time of the process and its servers, when it has ended."""

Kind = Literal["plain", "secured", "clustered"]
"""One broker and one Valkey, the same with TLS, passwords and access rules, or three brokers and three shards."""


@dataclass(frozen=True, slots=True)
class SharedServers:
    """Addresses; for secured servers also their certificates' directory and Valkey's plain address."""

    kafka: str
    valkey: str
    plain_valkey: str = ""
    certificates: str = ""


def use_given_servers(directory: Path) -> None:
    """Take the servers of TALLY_KAFKA_BOOTSTRAP_SERVERS and TALLY_VALKEY_URL for the run if both are set.

    The variables are removed: to a command they would hide the servers that a test starts for itself.
    """
    kafka, valkey = (os.environ.pop(name, None) for name in ("TALLY_KAFKA_BOOTSTRAP_SERVERS", "TALLY_VALKEY_URL"))
    own = os.environ.get("TALLY_TESTS_SECURED") or os.environ.get("TALLY_TESTS_CLUSTERED")
    if kafka and valkey and not own:
        _write(directory, SharedServers(kafka, valkey))


def shared_servers(directory: Path, controller: int, kind: Kind) -> SharedServers:
    """Return the run's servers, and start them if they do not run yet."""
    addresses = directory / "addresses.json"
    with FileLock(directory / "start.lock"):
        if not addresses.exists():
            _start(directory, controller, addresses, kind)
    return SharedServers(**json.loads(addresses.read_text()))


def _start(directory: Path, controller: int, addresses: Path, kind: Kind) -> None:
    log = directory / "servers.log"
    command = [sys.executable, __file__, str(directory), str(controller), kind]
    with log.open("ab") as output:
        keeper = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
        )
    (directory / "pid").write_text(str(keeper.pid))
    deadline = time.monotonic() + START_S
    while not addresses.exists():
        if keeper.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"The servers did not start.\n{log.read_text(errors='replace')}")
        time.sleep(POLL_S)


def stop_servers(directory: Path) -> float:
    """End the process and its servers; return the seconds of CPU time that they used when they have ended."""
    with suppress(FileNotFoundError, psutil.NoSuchProcess):
        keeper = psutil.Process(int((directory / "pid").read_text()))
        keeper.terminate()
        keeper.wait(STOP_S)
    file = directory / CPU_TIME
    return float(file.read_text()) if file.exists() else 0.0


def used_cpu_s() -> float:
    """Return the CPU time of this process and of all that it or they started and waited for."""
    return time.process_time() + ended_cpu_s()


def ended_cpu_s() -> float:
    """Return the CPU time of the processes that this one or they started and waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _write(directory: Path, addresses: SharedServers) -> None:
    prepared = directory / "addresses.tmp"
    prepared.write_text(json.dumps(asdict(addresses)))
    prepared.rename(directory / "addresses.json")


async def _keep(directory: Path, controller: int, kind: str) -> None:
    """Write the addresses, run the servers until SIGTERM or the controller's end, and write their CPU time.

    Deletes the directory if the controller cannot.
    """
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    started = {"plain": _plain, "secured": _secured, "clustered": _clustered}[kind](directory)
    async with started as addresses:
        _write(directory, addresses)
        while start_time(controller) is not None and not stop.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), POLL_S)
    (directory / CPU_TIME).write_text(str(used_cpu_s()))
    if start_time(controller) is None:
        shutil.rmtree(directory, ignore_errors=True)


@asynccontextmanager
async def _plain(directory: Path) -> AsyncIterator[SharedServers]:
    settings = StackSettings(data_dir=directory / "data", valkey_fsync="no")
    async with Servers(settings, report=Report()) as servers:
        yield SharedServers(servers.addresses.kafka, servers.addresses.valkey)


@asynccontextmanager
async def _secured(directory: Path) -> AsyncIterator[SharedServers]:
    from tests.support.servers.secured import secured_servers  # noqa: PLC0415 (only if needed)

    async with secured_servers(directory / "data", "t????????", "e2e????????") as servers:
        folder = servers.certificates.folder
        yield SharedServers(servers.kafka, servers.valkey, servers.plain_valkey, str(folder))


@asynccontextmanager
async def _clustered(directory: Path) -> AsyncIterator[SharedServers]:
    settings = StackSettings(
        data_dir=directory / "data", valkey_fsync="no", brokers=3, valkey_shards=3, kafka_heap_mb=256
    )
    async with Servers(settings, report=Report()) as servers:
        yield SharedServers(servers.addresses.kafka, servers.addresses.valkey)


if __name__ == "__main__":
    asyncio.run(_keep(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
