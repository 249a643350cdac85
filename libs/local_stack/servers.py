"""Starts and stops the servers of Kafka and Valkey as configured."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from libs.local_stack import stack_json
from libs.local_stack.child_process import Reaper
from libs.local_stack.data_dir import DataDir
from libs.local_stack.server_choice import choose
from libs.local_stack.server_interface import Server, ServerGroup
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.topology import Topology


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
