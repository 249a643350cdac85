"""A Valkey Cluster of processes on this machine, for tests that move slots and stop servers."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from libs.local_stack.ports import free_ports
from libs.local_stack.valkey import find
from libs.views.valkey.hash_tags import SLOTS, shard_borders
from tests.support.eventually import eventually

NODE_TIMEOUT_MS, FAILOVER_TIMEOUT_MS = 15_000, 1_500
"""Time after which a node counts as lost: a busy one must not, except where a replica is to take over."""
START_S = 60.0


@dataclass
class Node:
    port: int
    bus_port: int
    directory: Path
    timeout_ms: int
    announced: tuple[int, int] = (0, 0)
    """Ports under which the others find it, if not its own."""
    process: subprocess.Popen[bytes] = field(init=False)
    redis: Redis = field(init=False)

    def start(self) -> None:
        self.directory.mkdir(exist_ok=True)
        options = {
            "port": self.port,
            "bind": "127.0.0.1",
            "dir": self.directory,
            "cluster-enabled": "yes",
            "cluster-port": self.bus_port,
            "cluster-announce-port": self.announced[0],
            "cluster-announce-bus-port": self.announced[1],
            "cluster-node-timeout": self.timeout_ms,
            "cluster-require-full-coverage": "no",
            "cluster-replica-validity-factor": 0,
            "repl-diskless-sync-delay": 0,
            "save": "",
            "io-threads": 1,
        }
        arguments = [part for name, value in options.items() for part in (f"--{name}", str(value))]
        log = (self.directory / "log").open("ab")
        self.process = subprocess.Popen([find(), *arguments], stdout=log, stderr=log)
        self.redis = Redis(port=self.port, socket_timeout=5)

    async def id(self) -> str:
        return str((await self.command("CLUSTER", "MYID")).decode())

    async def command(self, *command: Any) -> Any:
        return await self.redis.execute_command(*command)

    def stop(self) -> None:
        """Stop it as if it hung."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.process.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@dataclass
class Cluster:
    """`shards` primaries, the first nodes, with equal ranges of slots, then a replica of each if there are any."""

    nodes: Sequence[Node]
    shards: int

    @property
    def url(self) -> str:
        return "redis://" + ",".join(f"127.0.0.1:{node.announced[0] or node.port}" for node in self.nodes)

    def primary_of(self, replica: int) -> Node:
        return self.nodes[replica]

    def node_of(self, slot: int) -> Node:
        """Return the node that held the slot at first."""
        borders = shard_borders(self.shards)
        return next(node for node, end in zip(self.nodes, borders[1:], strict=False) if slot < end)

    async def form(self) -> None:
        await eventually(self._answers, deadline_s=START_S)
        first = self.nodes[0]
        borders = shard_borders(self.shards)
        for number, node in enumerate(self.nodes):
            await node.command("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
            if number < self.shards:
                await node.command("CLUSTER", "ADDSLOTSRANGE", borders[number], borders[number + 1] - 1)
            found_at = node.announced if any(node.announced) else (node.port, node.bus_port)
            await first.command("CLUSTER", "MEET", "127.0.0.1", *found_at)
        await eventually(self._agrees, deadline_s=START_S)
        for number, replica in enumerate(self.nodes[self.shards :]):
            await replica.command("CLUSTER", "REPLICATE", await self.primary_of(number).id())
        await eventually(self._is_replicated, deadline_s=START_S)

    async def _answers(self) -> bool:
        try:
            return all([await node.redis.ping() for node in self.nodes])
        except (RedisError, OSError):
            return False

    async def _agrees(self) -> bool:
        """Return whether each node has found all others and all slots."""
        for node in self.nodes:
            info = (await node.command("CLUSTER", "INFO")).decode()
            wanted = "cluster_state:ok", f"cluster_known_nodes:{len(self.nodes)}", f"cluster_slots_ok:{SLOTS}"
            if not {*wanted} <= {*info.split()}:
                return False
        return True

    async def _is_replicated(self) -> bool:
        replicas = self.nodes[self.shards :]
        roles = [(await node.command("ROLE")) for node in replicas]
        return all(role[0] == b"slave" and role[3] == b"connected" for role in roles)


@asynccontextmanager
async def valkey_cluster(
    shards: int = 3,
    *,
    replicas: bool = False,
    fails_over: bool = True,
    further: int = 0,
    timeout_ms: int = 0,
    announce: Callable[[Node], Awaitable[tuple[int, int]]] | None = None,
    kind: type[Cluster] = Cluster,
    started: Callable[[list[Node]], None] = lambda _: None,
) -> AsyncIterator[Cluster]:
    """Start and form a cluster. Unless it `fails_over` soon, a busy machine promotes no replica.

    `further` are replicas beside; `announce` returns the ports under which the others find one; `started` is
    called before the servers meet.
    """
    directory = Path(tempfile.mkdtemp(prefix="valkey-cluster-"))
    servers = shards * (2 if replicas else 1) + further
    ports = free_ports(2 * servers)
    timeout_ms = timeout_ms or (FAILOVER_TIMEOUT_MS if replicas and fails_over else NODE_TIMEOUT_MS)
    nodes = [
        Node(port, bus_port, directory / str(port), timeout_ms)
        for port, bus_port in zip(ports[:servers], ports[servers:], strict=True)
    ]
    for node in nodes:
        if announce is not None:
            node.announced = await announce(node)
        node.start()
    try:
        started(nodes)
        cluster = kind(nodes, shards)
        await cluster.form()
        yield cluster
    finally:
        for node in nodes:
            node.kill()
        await asyncio.gather(*(node.redis.aclose() for node in nodes), return_exceptions=True)
        shutil.rmtree(directory, ignore_errors=True)
