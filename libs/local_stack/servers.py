"""Starts and stops Kafka and Valkey: external by the settings, otherwise native, otherwise in containers."""

import asyncio
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

from libs.kafka.settings import KafkaSettings
from libs.local_stack import errors, java, kafka, ports, stack_json, valkey
from libs.local_stack.child_process import Reaper
from libs.local_stack.data_dir import DataDir
from libs.local_stack.kafka import native_brokers
from libs.local_stack.server_interface import External, Server, ServerGroup, alone
from libs.local_stack.settings import StackSettings, Topology
from libs.local_stack.startup_report import Report
from libs.local_stack.valkey import native_valkey
from libs.storage.private_files import remembered_secret, write_private
from libs.telemetry.redaction import revealed

OF_THE_EXTRA: Final = ("jgo", "testcontainers")
"""Modules that the extra `local` installs on every platform; servers' images omit it."""


@dataclass(frozen=True, slots=True)
class Addresses:
    """Addresses; `kafka`: comma-separated host:port; `valkey`: a URL with a database number, of several servers if
    they are a cluster."""

    kafka: str
    valkey: str


class Servers:
    """Kafka and Valkey, started and stopped together; each can be killed and restarted by name.

    An address in the settings is used as it is; other servers are started natively, otherwise in containers.
    Started servers end with this process, even if it is killed by SIGKILL.
    """

    def __init__(self, settings: StackSettings, *, fresh: bool = False, report: Report | None = None) -> None:
        self._settings = settings
        self._fresh = fresh
        self._report = report or Report()
        self._data_dir = DataDir(settings.data_dir, settings.stack_min_free_mb)
        self._reaper: Reaper | None = None
        self._groups: dict[str, ServerGroup] = {}
        self._servers: dict[str, Server] = {}
        self.topology = Topology()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def data_dir(self) -> Path:
        return self._data_dir.path

    @property
    def reaper(self) -> Reaper:
        """Reaper for further children that must not outlive this process."""
        assert self._reaper is not None, "not started"
        return self._reaper

    @property
    def is_open(self) -> bool:
        """True while the data directory is locked."""
        return self._data_dir.is_open

    @property
    def running(self) -> Mapping[str, Server]:
        return self._servers

    @property
    def addresses(self) -> Addresses:
        return Addresses(self._groups["kafka"].address, self._groups["valkey"].address)

    @property
    def pids(self) -> dict[str, int]:
        """Process ids of the servers that run as child processes, by name."""
        return {name: server.pid for name, server in self._servers.items() if server.pid is not None}

    async def start(self) -> Addresses:
        """Start all and wait until they respond. Raises `StackError`, with nothing left running."""
        lock = await asyncio.to_thread(self._data_dir.open, fresh=self._fresh)
        try:
            self._reaper = Reaper(keep_open=[lock], announcements=[self.data_dir / stack_json.FILE])
            self.topology = Topology.of(self._settings, self.data_dir)
            self._groups = choose(self._settings, self.topology, self.data_dir, self._reaper, self._report)
            self._servers = {server.name: server for group in self._groups.values() for server in group.members}
            async with asyncio.TaskGroup() as starting:
                for server in self._servers.values():
                    starting.create_task(server.start())
            async with asyncio.TaskGroup() as forming:
                for group in self._groups.values():
                    forming.create_task(group.form())
        except BaseExceptionGroup as group:
            await self.stop()
            raise group.exceptions[0] from None
        except BaseException:
            await self.stop()
            raise
        return self.addresses

    async def stop(self) -> None:
        """Stop the started servers, Kafka first; idempotent."""
        try:
            for name in ("kafka", "valkey"):
                if name in self._groups:
                    await asyncio.gather(*(server.stop() for server in self._groups[name].members))
        finally:
            if self._reaper is not None:
                await asyncio.to_thread(self._reaper.close)
                self._reaper = None
            self._data_dir.close()

    async def kill(self, name: str) -> None:
        """Kill a server by SIGKILL; it stays down until `restart`."""
        await self._servers[name].kill()

    async def restart(self, name: str) -> None:
        """Stop the server if it runs, and start it with the same address and data."""
        await self._servers[name].stop()
        await self._servers[name].start()


def choose(
    settings: StackSettings, topology: Topology, data_dir: Path, reaper: Reaper, report: Report
) -> dict[str, ServerGroup]:
    """Return `kafka` and `valkey`, not started yet. Raises `StackError` if one cannot be run."""
    chosen: dict[str, Server] = {}
    if settings.kafka_bootstrap_servers:
        setting = "TALLY_KAFKA_BOOTSTRAP_SERVERS"
        chosen["kafka"] = External("kafka", settings.kafka_bootstrap_servers, setting, kafka.answers)
    if settings.valkey_url:
        chosen["valkey"] = External("valkey", revealed(settings.valkey_url), "TALLY_VALKEY_URL", valkey.answers)
    groups = {name: alone(server) for name, server in chosen.items()}
    if len(chosen) == 2:
        return groups
    if "kafka" not in chosen and KafkaSettings().kafka_security_protocol != "PLAINTEXT":
        raise errors.secured_kafka_without_address()
    if not all(map(find_spec, OF_THE_EXTRA)):
        raise errors.local_extra_missing()
    if settings.stack == "containers" or (settings.stack == "auto" and not _can_run_natively(chosen)):
        return {name: alone(server) for name, server in _in_containers(settings, data_dir).items()} | groups
    if "kafka" not in chosen:
        groups["kafka"] = native_brokers(topology, settings, data_dir, reaper, report)
    if "valkey" not in chosen:
        groups["valkey"] = native_valkey(topology, settings, data_dir, reaper)
    return groups


def _can_run_natively(external: dict[str, Server]) -> bool:
    """Return False only if containers are available instead; otherwise the native error is more helpful."""
    from libs.local_stack.containers import docker_answers  # noqa: PLC0415 (Docker's client takes 0.2 s)

    try:
        if "kafka" not in external:
            java.find()
        if "valkey" not in external:
            valkey.find()
    except errors.StackError:
        return not docker_answers()
    return True


def _in_containers(settings: StackSettings, data_dir: Path) -> dict[str, Server]:
    from libs.local_stack import containers  # noqa: PLC0415 (Docker's client takes 0.2 s)

    if not containers.docker_answers():
        raise errors.no_docker()
    port = ports.remembered(data_dir / "ports.json", ("kafka", "valkey"))
    identity = data_dir / "containers.id"
    if not identity.exists():
        write_private(identity, f"tally-{uuid.uuid4().hex[:12]}")
    volume, timeout_s = identity.read_text(), settings.stack_start_timeout_s
    return {
        "kafka": containers.container_kafka(
            settings.kafka_image,
            port["kafka"],
            volume,
            timeout_s,
            remembered_secret(data_dir / "kafka" / kafka.SECRET_FILE),
        ),
        "valkey": containers.container_valkey(
            settings.valkey_image,
            port["valkey"],
            volume,
            timeout_s,
            settings.valkey_fsync,
            remembered_secret(data_dir / "valkey" / valkey.SECRET_FILE),
        ),
    }
