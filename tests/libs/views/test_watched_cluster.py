"""Partitions are watched on a cluster: each shard notes its own changes; a promoted one's are not trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.valkey import watched_reads
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.hash_tags import key_base, slot_of
from libs.views.valkey.partition_reads import Group, Mark
from libs.views.valkey.watched_reads import WatchedMarks
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually
from tests.support.servers.loaded_valkey import loaded_valkey, once_executed
from tests.support.servers.valkey_cluster import Cluster, Node, valkey_cluster

pytestmark = pytest.mark.servers

PARTITIONS = 16
EVERY = range(PARTITIONS)
SHARDS = 3
LOG = "log"


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with valkey_cluster(SHARDS, replicas=True, fails_over=False) as running:
        yield running


@pytest.fixture
async def valkey(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ValkeyClient]:
    """Return a client whose calls outlast the steps of a test."""
    monkeypatch.setattr("libs.views.valkey.client.TIMEOUT_S", 60.0)
    async with loaded_valkey(cluster.url) as client:
        yield client


@pytest.fixture
async def views(valkey: ValkeyClient, namespace: str) -> VoteViews:
    return await begun_views(valkey, namespace)


async def begun_views(valkey: ValkeyClient, namespace: str) -> VoteViews:
    """Return views of which all partitions are begun."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(fold(views, partition, 1) for partition in EVERY))
    return views


@pytest.fixture
async def marks(views: VoteViews, without_reads_in_turn: None) -> WatchedMarks:
    """After the first look, at all partitions."""
    marks = WatchedMarks(views.live)
    assert await marks.changed_marks(EVERY) == dict.fromkeys(EVERY, at(1))
    return marks


@pytest.fixture
def without_reads_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched_reads, "LEAST_HOLD_S", 3_600.0)
    monkeypatch.setattr(watched_reads, "LONGEST_HOLD_S", 3_600.0)


def at(offset: int) -> Mark:
    return Mark(Position(LOG, offset), 0)


async def fold(views: VoteViews, partition: int, end: int) -> None:
    await views.apply(partition, Position(LOG, end - 1), [], end)


class Pair:
    """The primary and the replica of the shard that holds a partition."""

    def __init__(self, cluster: Cluster, namespace: str, partition: int) -> None:
        first = cluster.node_of(slot(namespace, partition))
        self._nodes = first, cluster.nodes[cluster.nodes.index(first) + SHARDS]

    async def promote(self) -> None:
        """Have the replica take over, after it has received all writes."""
        [primary] = [node for node in self._nodes if await is_primary(node)]
        [replica] = [node for node in self._nodes if node is not primary]
        await primary.command("WAIT", 1, 0)
        await replica.command("CLUSTER", "FAILOVER", "TAKEOVER")
        await eventually(self._is_replicated)

    async def _is_replicated(self) -> bool:
        roles = [await node.command("ROLE") for node in self._nodes]
        return any(role[0] == b"slave" and role[3] == b"connected" for role in roles)


async def is_primary(node: Node) -> bool:
    return bool((await node.command("ROLE"))[0] == b"master")


def slot(namespace: str, partition: int) -> int:
    return slot_of(key_base(namespace, "votes", partition, PARTITIONS).encode())


def group_of(views: VoteViews, partition: int) -> Group:
    return next(group for group in views.live.groups(EVERY) if partition in group)


async def looked(marks: WatchedMarks) -> dict[int, Mark]:
    """Look once, as soon as all shards answer."""
    return dict(await once_executed(lambda: marks.changed_marks(EVERY), ViewsUnavailable))


async def test_changed_partitions_of_each_shard_are_read_again(views: VoteViews, marks: WatchedMarks) -> None:
    groups = views.live.groups(EVERY)
    assert len(groups) == SHARDS
    changed = {group[-1] for group in groups}
    for partition in changed:
        await fold(views, partition, 2)
    assert await marks.changed_marks(EVERY) == dict.fromkeys(changed, at(2))
    assert await marks.changed_marks(EVERY) == {}


async def test_the_notes_of_a_promoted_node_are_not_trusted(
    cluster: Cluster, views: VoteViews, marks: WatchedMarks, namespace: str
) -> None:
    """It has the changes that its former primary noted; promoted again, it has former notes without later ones."""
    changed, pair = 3, Pair(cluster, namespace, 3)
    await fold(views, changed, 2)
    await pair.promote()
    found = await looked(marks)
    assert {*group_of(views, changed)} <= {*found}
    assert found[changed] == at(2)
    await fold(views, changed, 3)
    assert (await looked(marks))[changed] == at(3)
    await pair.promote()
    await fold(views, changed, 4)
    await pair.promote()
    assert (await looked(marks))[changed] == at(4)


async def test_a_lost_shard_hides_no_change_of_others_and_is_read_whole_when_it_is_back(
    namespace: str, without_reads_in_turn: None
) -> None:
    """It comes back empty."""
    async with valkey_cluster(SHARDS) as cluster, loaded_valkey(cluster.url) as client:
        views = await begun_views(client, namespace)
        marks = WatchedMarks(views.live)
        await marks.changed_marks(EVERY)
        node, theirs = cluster.node_of(slot(namespace, 3)), group_of(views, 3)
        other = next(partition for partition in EVERY if partition not in theirs)
        node.kill()
        await fold(views, other, 2)
        assert (await marks.marks(group_of(views, other)))[other] == at(2)
        with pytest.raises(ViewsUnavailable):
            await marks.changed_marks(EVERY)
        node.start()
        await eventually(node.redis.ping)
        assert await looked(marks) == dict.fromkeys(theirs, Mark(None, 0))
