"""A primary that reaches gateways and Kafka, but no replica and no projector: what it confirmed counts.

It still hears the other primaries, which do not hear it: so it does not notice that they promote a replica. With
the default `min-replicas-max-lag`, 10 s, votes that it confirmed meanwhile are lost.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from redis.exceptions import RedisError

from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from libs.local_stack.valkey import MAX_LAG_S, NODE_TIMEOUT_MS
from libs.views.valkey.failover_settings import LAG, WRITE
from libs.views.valkey.hash_tags import SLOTS, key_base, slot_of
from services.cli import bootstrap
from tests.faults.voters import Voters, a_limited_contest, settled, voting
from tests.support.clients.stack_keys import development_client
from tests.support.eventually import eventually
from tests.support.servers.network import Network, Rule, held, open_network
from tests.support.servers.valkey_cluster import Cluster, Node, valkey_cluster

pytestmark = [pytest.mark.slow, pytest.mark.stack]

SHARDS, REPLICAS, PARTITIONS, VOTERS, LIMIT = 3, 2, 6, 8, 20


class CutOffCluster(Cluster):
    """The first primary has two replicas, the others none."""

    def primary_of(self, replica: int) -> Node:
        return self.nodes[0]


@dataclass
class Processes:
    """The servers and the stack's services by their names."""

    nodes: list[Node] = field(default_factory=list)
    stack: Supervisor | None = None

    def pids(self) -> dict[str, int]:
        found = {name_of(node): node.process.pid for node in self.nodes}
        return found if self.stack is None else found | self.stack.pids


def name_of(node: Node) -> str:
    return f"valkey {node.port}"


@asynccontextmanager
async def networked_cluster() -> AsyncIterator[tuple[Cluster, Network, Processes]]:
    processes = Processes()
    async with open_network(processes.pids) as network:

        async def announce(node: Node) -> tuple[int, int]:
            port, bus_port = node.port, node.bus_port
            return await network.open(port, name_of(node)), await network.open(bus_port, name_of(node))

        async with valkey_cluster(
            SHARDS,
            further=REPLICAS,
            timeout_ms=NODE_TIMEOUT_MS,
            announce=announce,
            kind=CutOffCluster,
            started=processes.nodes.extend,
        ) as cluster:
            yield cluster, network, processes


async def test_what_a_cut_off_primary_confirmed_counts(servers: Servers, tmp_path: Path) -> None:
    async with networked_cluster() as (cluster, network, processes):
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
        processes.stack = Supervisor(settings, bootstrap, port=0, any_port=True)
        async with processes.stack as stack, voted_on(stack) as voters:
            [projector] = [name for name in stack.pids if name.startswith("projector")]
            assert any(is_of(former, cluster, stack, number) for number in range(PARTITIONS))
            await eventually(lambda: voters.total > 40)
            silent = [*map(name_of, replicas), projector]
            deaf = [name_of(node) for node in others if node not in replicas]
            one = [name_of(former)]
            rules = Rule(one, [*silent, *deaf], held), Rule(silent, one, held)

            async def is_promoted() -> bool:
                roles = [(await node.command("ROLE"))[0] for node in replicas]
                return b"master" in roles

            with network.disturbed(*rules):
                assert await eventually(is_promoted)
                assert await refuses(former, cluster), "votes are confirmed by a primary that was replaced"
                before = len(voters.acceptances)
                assert all(rule.bit for rule in rules)
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
async def voted_on(stack: Supervisor) -> AsyncIterator[Voters]:
    """Voters meanwhile; at the end each of their votes is counted once."""
    async with development_client(stack.stack) as client:
        voters = Voters(await a_limited_contest(client, LIMIT))
        async with voting(voters, VOTERS):
            yield voters
        await settled(client, voters.contest, voters)
