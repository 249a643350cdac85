"""A primary that reaches gateways and Kafka, but no replica and no projector: what it confirmed counts.

It still hears the other primaries, which do not hear it: so it does not notice that they promote a replica. With
the default `min-replicas-max-lag`, 10 s, votes that it confirmed meanwhile are lost.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from redis.exceptions import RedisError

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.local_stack.valkey import MAX_LAG_S, NODE_TIMEOUT_MS
from libs.views.valkey.failover_settings import LAG, WRITE
from libs.views.valkey.hash_tags import SLOTS, key_base, slot_of
from services.cli import bootstrap
from tests.faults.voters import Voters, settled
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.valkey_cluster import Cluster, Node, valkey_cluster
from tests.support.voting import Api

pytestmark = [pytest.mark.slow, pytest.mark.stack]

BUS_MESSAGE, SENDER = b"RCmb", slice(40, 80)
"""Beginning of a message of the cluster's bus, and the place of its sender's id."""
SHARDS, REPLICAS, PARTITIONS, VOTERS, LIMIT = 3, 2, 6, 8, 20


@dataclass
class Network:
    """Proxies of the servers' ports. While the process `one` is cut off, it hears none of `silent`, and they and
    `deaf` do not hear it."""

    pids_of: dict[int, int] = field(default_factory=dict)
    """Process of the server behind each proxied port."""
    pids_by_id: dict[bytes, int] = field(default_factory=dict)
    """Processes of the servers by their ids, which the first message of a link of the cluster's bus has."""
    one: int = 0
    silent: set[int] = field(default_factory=set)
    deaf: set[int] = field(default_factory=set)
    projector: int = 0
    _healed: asyncio.Event = field(default_factory=asyncio.Event)
    _servers: list[asyncio.Server] = field(default_factory=list)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    async def open(self, port: int) -> int:
        """Return the port of a new proxy of `port`."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            with suppress(OSError, asyncio.CancelledError):
                await self._link(port, reader, writer)
            writer.close()
            self._tasks.discard(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        found: int = server.sockets[0].getsockname()[1]
        return found

    def cut(self, one: int, silent: set[int], deaf: set[int]) -> None:
        self.one, self.silent, self.deaf = one, silent, deaf

    def heal(self) -> None:
        self.one = 0
        self._healed.set()

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _link(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(writer.get_extra_info("peername")[1], self.pids_of.get(port, 0))
        onward, backward = await asyncio.open_connection("127.0.0.1", port)
        pumps = [
            asyncio.create_task(self._pump(reader, backward, link, is_onward=True)),
            asyncio.create_task(self._pump(onward, writer, link, is_onward=False)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.wait(pumps)
            backward.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: "Link", *, is_onward: bool
    ) -> None:
        while data := await reader.read(1 << 16):
            if is_onward and link.source is None:
                link.source = await self._source(link, data)
            ends = (link.source, link.target) if is_onward else (link.target, link.source)
            if self._is_cut(*ends):
                await self._healed.wait()
            writer.write(data)
            await writer.drain()

    async def _source(self, link: "Link", data: bytes) -> int | None:
        """Return the process that has sent `data`; None if another look at later data is needed."""
        if data.startswith(BUS_MESSAGE):
            return self.pids_by_id.get(data[SENDER], 0) if self.pids_by_id else None
        if b"REPLCONF" in data or b"PSYNC" in data:
            return next(iter(self.silent), None)
        if not self.projector or link.target != self.one:
            return None
        return self.projector if link.port in await asyncio.to_thread(_ports_of, self.projector) else 0

    def _is_cut(self, sender: int | None, receiver: int | None) -> bool:
        if not self.one:
            return False
        unheard = sender == self.one and receiver in self.silent | self.deaf
        return unheard or (sender in self.silent and receiver == self.one)


@dataclass
class Link:
    """A connection through a proxy: the port at its source, and the processes at both ends once known."""

    port: int
    target: int
    source: int | None = None


def _ports_of(pid: int) -> set[int]:
    with suppress(psutil.Error):
        return {each.laddr.port for each in psutil.Process(pid).net_connections("tcp4") if each.raddr}
    return set()


class CutOffCluster(Cluster):
    """The first primary has two replicas, the others none."""

    def primary_of(self, replica: int) -> Node:
        return self.nodes[0]


@asynccontextmanager
async def networked_cluster() -> AsyncIterator[tuple[Cluster, Network]]:
    network = Network()
    try:
        async with valkey_cluster(
            SHARDS,
            further=REPLICAS,
            timeout_ms=NODE_TIMEOUT_MS,
            announce=network.open,
            kind=CutOffCluster,
            started=lambda nodes: know(network, nodes),
        ) as cluster:
            yield cluster, network
    finally:
        await network.close()


def know(network: Network, nodes: list[Node]) -> None:
    for node in nodes:
        network.pids_of |= {node.port: node.process.pid, node.bus_port: node.process.pid}


async def test_what_a_cut_off_primary_confirmed_counts(servers: Servers, tmp_path: Path) -> None:
    async with networked_cluster() as (cluster, network):
        former, *others = cluster.nodes
        replicas = cluster.nodes[SHARDS:]
        for setting, value in ((WRITE, 1), (LAG, MAX_LAG_S)):
            for node in (former, *replicas):
                await node.command("CONFIG", "SET", setting, value)
        settings = StackSettings(
            kafka_bootstrap_servers=servers.addresses.kafka,
            valkey_url=cluster.url,
            namespace=f"cut{former.port}",
            partitions=PARTITIONS,
            data_dir=tmp_path,
        )
        async with Supervisor(settings, bootstrap, port=0, any_port=True) as stack, voting(stack) as voters:
            [projector] = [pid for name, pid in stack.pids.items() if name.startswith("projector")]
            assert any(is_of(former, cluster, stack, number) for number in range(PARTITIONS))
            await eventually(lambda: voters.total > 40)
            network.pids_by_id = {(await node.id()).encode(): node.process.pid for node in cluster.nodes}
            silent = {*(node.process.pid for node in replicas), projector}
            network.projector = projector
            network.cut(former.process.pid, silent, {node.process.pid for node in others} - silent)

            async def is_promoted() -> bool:
                roles = [(await node.command("ROLE"))[0] for node in replicas]
                return b"master" in roles

            assert await eventually(is_promoted)
            assert await refuses(former, cluster), "votes are confirmed by a primary that was replaced"
            before = len(voters.acceptances)
            network.heal()
            await eventually(lambda: len(voters.acceptances) > before + 40)


def is_of(node: Node, cluster: Cluster, stack: Supervisor, partition: int) -> bool:
    base = key_base(str(stack.stack["namespace"]), "votes", partition, PARTITIONS)
    return cluster.node_of(slot_of(base.encode())) is node


async def refuses(node: Node, cluster: Cluster) -> bool:
    """Return whether a server writes no key of its slots."""
    names = (f"probe {number}" for number in range(SLOTS))
    name = next(name for name in names if cluster.node_of(slot_of(name.encode())) is node)
    try:
        await node.command("SET", name, 1)
    except RedisError:
        return True
    return False


@asynccontextmanager
async def voting(stack: Supervisor) -> AsyncIterator[Voters]:
    headers = {"Authorization": f"Bearer {stack.stack['api_key']}"}
    async with http_client(base_url=stack.base_url, headers=headers, timeout=30) as client:
        limits = {"max_participant": LIMIT, "max_contest": 2 * LIMIT}
        voters = Voters(await Api(client).contest(participants=3, free=limits))
        async with asyncio.TaskGroup() as group:
            for number in range(VOTERS):
                group.create_task(voters.vote(number))
            yield voters
            voters.stop.set()
        await settled(client, voters.contest, voters)
