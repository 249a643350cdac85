"""The client of a cluster, on a real one: slots that move, primaries that are killed or hang."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import pytest

from libs.contracts.log_records import Position
from libs.contracts.topics import votes_topic
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.key_scan import generation_keys
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.connection import NotExecuted
from libs.views.valkey.function_libraries import libraries
from libs.views.valkey.function_loading import open_valkey
from libs.views.valkey.hash_tags import key_base, slot_of
from libs.views.valkey.partition_reads import Mark
from libs.views.valkey.watched_reads import WatchedMarks
from tests.support.clients.vote_views import VoteViews
from tests.support.eventually import eventually
from tests.support.servers.loaded_valkey import loaded_valkey, once_executed
from tests.support.servers.valkey_cluster import Cluster, Node, valkey_cluster

pytestmark = pytest.mark.servers

PARTITIONS = 16
EVERY = range(PARTITIONS)
FAILOVER_S = 60.0
"""Node timeout and election take some 3 s; the rest is for a busy machine."""


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    """With the functions on all its primaries."""
    async with valkey_cluster() as running, loaded_valkey(running.url):
        yield running


@pytest.fixture
async def valkey(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ValkeyClient]:
    """Return a client whose calls outlast the steps of a test."""
    monkeypatch.setattr("libs.views.valkey.client.TIMEOUT_S", 60.0)
    client = open_valkey(cluster.url)
    yield client
    await client.close()


@pytest.fixture
async def views(valkey: ValkeyClient, namespace: str) -> VoteViews:
    """With all partitions begun."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(fold(views, partition, 1) for partition in EVERY))
    return views


async def fold(views: VoteViews, partition: int, end: int) -> None:
    """Fold one record without an event."""
    await views.apply(partition, Position(f"log{partition}", end - 1), [], end)


def base_of(namespace: str, partition: int) -> str:
    return key_base(namespace, "votes", partition, PARTITIONS)


def slot(namespace: str, partition: int) -> int:
    return slot_of(base_of(namespace, partition).encode())


async def scanned(valkey: ValkeyClient, namespace: str) -> set[int]:
    """Return the partitions of which a scan finds keys."""
    topic = votes_topic(namespace, PARTITIONS)
    return {key.partition async for key in generation_keys(valkey, namespace, "votes", topic)}


@contextmanager
def hanging(node: Node) -> Iterator[None]:
    node.stop()
    try:
        yield
    finally:
        node.resume()


async def test_every_partition_is_served_and_no_shard_holds_two_more_than_another(
    cluster: Cluster, valkey: ValkeyClient, views: VoteViews, namespace: str
) -> None:
    """The first calls are sent to any server, which redirects them."""
    states = await asyncio.gather(*map(views.state, EVERY))
    assert [state.position.log_id for state in states] == [f"log{partition}" for partition in EVERY]
    assert await scanned(valkey, namespace) == set(EVERY)
    held = Counter(cluster.node_of(slot(namespace, partition)).port for partition in EVERY)
    assert sorted(held.values()) == [5, 5, 6]


async def test_partitions_share_no_call_where_a_single_server_is_a_cluster(
    cluster: Cluster, namespace: str
) -> None:
    """It refuses the first call for its slots, whichever of them it has."""
    node = cluster.node_of(slot(namespace, 0))
    alone = open_valkey(f"redis://127.0.0.1:{node.port}/0")
    views = VoteViews(alone, namespace, PARTITIONS)
    assert views.call_group(0) == views.call_group(1)
    with pytest.raises(NotExecuted):
        await views.confirm_together([(0, 1), (1, 1)])
    assert views.call_group(0) != views.call_group(1)
    assert await views.confirm_together([(0, 1)]) == [False]
    await alone.close()


async def test_closings_are_read_by_a_call_for_each_primary_and_raised_by_one_for_each_partition(
    cluster: Cluster, views: VoteViews
) -> None:
    assert len({views.call_group(partition) for partition in EVERY}) == PARTITIONS
    for partition in EVERY:
        assert await views.raise_together([partition], {"contest": 2}) == [None]
    assert len(views.live.divided(EVERY)) == len(cluster.nodes)
    states = await views.closings(EVERY, "contest")
    assert sorted(states) == [*EVERY]
    assert {state.folded for state in states.values()} == {1}


async def test_each_primary_has_the_functions_and_gets_lost_ones_when_it_is_called(
    cluster: Cluster, views: VoteViews
) -> None:
    names = {library.loaded_name for library in libraries()}
    for node in cluster.nodes:
        listed = await node.command("FUNCTION", "LIST")
        assert {library[b"library_name"].decode() for library in listed} == names
    await cluster.nodes[1].command("FUNCTION", "FLUSH", "SYNC")
    await once_executed(lambda: asyncio.gather(*map(views.state, EVERY)))


class Move:
    """A slot on its way to another server, key by key."""

    def __init__(self, cluster: Cluster, slot: int) -> None:
        self.slot = slot
        self.source = cluster.node_of(slot)
        self.target = next(node for node in cluster.nodes if node is not self.source)

    async def __aenter__(self) -> Move:
        await self.target.command("CLUSTER", "SETSLOT", self.slot, "IMPORTING", await self.source.id())
        await self.source.command("CLUSTER", "SETSLOT", self.slot, "MIGRATING", await self.target.id())
        return self

    async def move(self, *keys: str) -> None:
        await self.source.command("MIGRATE", "127.0.0.1", self.target.port, "", 0, 5000, "KEYS", *keys)

    async def end(self) -> None:
        keys = [key.decode() for key in await self.source.command("CLUSTER", "GETKEYSINSLOT", self.slot, 1000)]
        if keys:
            await self.move(*keys)
        for node in (self.target, self.source):
            await node.command("CLUSTER", "SETSLOT", self.slot, "NODE", await self.target.id())

    async def __aexit__(self, *_: object) -> None:
        """Move it back, for the next test."""
        await self.end()
        self.source, self.target = self.target, self.source
        await self.__aenter__()
        await self.end()


async def test_a_key_is_found_while_its_slot_is_moved_wherever_it_is(
    cluster: Cluster, valkey: ValkeyClient, namespace: str
) -> None:
    stays, moves, new = (f"{namespace}:{{{namespace}}}:{name}" for name in ("stays", "moves", "new"))
    for key in (stays, moves):
        await valkey.call("SET", key, key)
    async with Move(cluster, slot_of(stays.encode())) as move:
        await move.move(moves)
        assert await valkey.call("GET", stays) == stays.encode()
        assert await valkey.call("GET", moves) == moves.encode()
        await valkey.call("SET", new, "1")
        await move.end()
        assert [await valkey.call("GET", key) for key in (stays, new)] == [stays.encode(), b"1"]


async def test_a_command_with_keys_on_both_servers_waits_until_the_slot_is_moved(
    cluster: Cluster, valkey: ValkeyClient, namespace: str
) -> None:
    one, other = (f"{{{namespace}}}:{name}" for name in ("one", "other"))
    await valkey.call("MSET", one, "1", other, "2")
    async with Move(cluster, slot_of(one.encode())) as move:
        await move.move(one)
        both = asyncio.ensure_future(valkey.call("MGET", one, other))
        await valkey.call("GET", one)
        assert not both.done()
        await move.end()
        assert await both == [b"1", b"2"]


async def test_a_function_never_sees_a_part_of_a_partition(
    cluster: Cluster, valkey: ValkeyClient, views: VoteViews, namespace: str
) -> None:
    """The key that names the partition does not exist, so either server would take the other to hold it."""
    generations = f"{base_of(namespace, 3)}:generations"
    async with Move(cluster, slot(namespace, 3)) as move:
        reads = [asyncio.ensure_future(views.state(3)) for _ in range(20)]
        folds = asyncio.ensure_future(fold(views, 3, 2))
        await move.move(generations)
        for _ in range(10):
            assert await valkey.call("HLEN", generations) > 0
        assert not any(read.done() for read in reads)
        await move.end()
        assert {read.position.log_id for read in await asyncio.gather(*reads)} == {"log3"}
        await folds
        assert (await views.state(3)).position == Position("log3", 2)


async def test_partitions_of_one_server_are_read_by_one_call_while_a_slot_is_moved(
    cluster: Cluster, views: VoteViews, namespace: str
) -> None:
    """That of the slot is never read in part; the others answer meanwhile."""
    groups = views.live.groups(EVERY)
    assert sorted(map(len, groups)) == [5, 5, 6]
    group = next(each for each in groups if 3 in each)
    async with Move(cluster, slot(namespace, 3)) as move:
        await move.move(f"{base_of(namespace, 3)}:g1:position")
        marks = await views.live.marks(group)
        assert {partition for partition, mark in marks.items() if isinstance(mark, ViewsUnavailable)} == {3}
        all_marks = asyncio.ensure_future(views.live.all_marks(EVERY))
        await views.live.marks(group)
        assert not all_marks.done()
        await move.end()
        positions = {mark.position for mark in (await all_marks).values()}
        assert positions == {Position(f"log{partition}", 1) for partition in EVERY}


async def test_a_change_by_another_process_after_its_slot_was_moved_is_found_by_a_read_in_turn(
    cluster: Cluster, views: VoteViews, namespace: str
) -> None:
    """The watcher asks the former server for changes until then."""
    marks = WatchedMarks(views.live)
    await marks.changed_marks(EVERY)
    async with Move(cluster, slot(namespace, 3)) as move, loaded_valkey(cluster.url) as other:
        await move.end()
        for offset in (2, 3):
            await fold(VoteViews(other, namespace, PARTITIONS), 3, offset)

            async def is_seen(offset: int = offset) -> bool:
                return (await marks.changed_marks(EVERY)).get(3) == Mark(Position("log3", offset), 0)

            await eventually(is_seen)


async def test_slots_that_are_moved_at_once_refuse_nobody(
    cluster: Cluster, views: VoteViews, namespace: str
) -> None:
    moved = slot(namespace, 5)
    source = cluster.node_of(moved)
    target = next(node for node in cluster.nodes if node is not source)
    end = 1
    for giver, taker in ((source, target), (target, source)):
        await giver.command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", moved, moved, "NODE", await taker.id())
        has_moved = False
        while not has_moved:
            ranges = await taker.command("CLUSTER", "SLOTS")
            has_moved = any(a <= moved <= b and primary[1] == taker.port for a, b, primary, *_ in ranges)
            end += 1
            await fold(views, 5, end)
    assert (await views.state(5)).position == Position("log5", end)


async def test_a_write_waits_while_its_primary_lacks_its_replicas(
    cluster: Cluster, views: VoteViews, namespace: str
) -> None:
    node = cluster.node_of(slot(namespace, 7))
    await node.command("CONFIG", "SET", "min-replicas-to-write", 1)
    write = asyncio.ensure_future(fold(views, 7, 2))

    async def is_refused() -> bool:
        return "errorstat_NOREPLICAS" in await node.command("INFO", "errorstats") or write.done()

    await eventually(is_refused)
    assert not write.done()
    await node.command("CONFIG", "SET", "min-replicas-to-write", 0)
    await write


async def test_a_shard_that_hangs_delays_no_other(cluster: Cluster, views: VoteViews, namespace: str) -> None:
    hung = cluster.nodes[2]
    theirs = {partition for partition in EVERY if cluster.node_of(slot(namespace, partition)) is hung}
    with hanging(hung):
        waiting = [asyncio.ensure_future(views.state(partition)) for partition in theirs]
        for _ in range(5):
            await asyncio.gather(*map(views.state, set(EVERY) - theirs))
        assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)


async def test_a_lost_shard_refuses_its_own_calls_and_is_not_overlooked_by_a_scan(namespace: str) -> None:
    async with valkey_cluster() as cluster:
        cluster.nodes[0].kill()
        async with loaded_valkey(cluster.url) as client:
            views = VoteViews(client, namespace, PARTITIONS)
            found = await asyncio.gather(*map(views.state, EVERY), return_exceptions=True)
            refused = [each for each in found if isinstance(each, BaseException)]
            assert len(refused) in (5, 6)
            assert {type(error) for error in refused} == {NotExecuted}
            with pytest.raises(ViewsUnavailable):
                await scanned(client, namespace)


@pytest.mark.parametrize("fault", ["killed", "hangs"])
async def test_a_replica_takes_over_from_a_primary(namespace: str, fault: str) -> None:
    async with valkey_cluster(replicas=True) as cluster, loaded_valkey(cluster.url) as client:
        lost = cluster.nodes[1]
        key = next(key for key in map(str, range(99)) if cluster.node_of(slot_of(key.encode())) is lost)
        await client.call("SET", key, "1")
        if fault == "killed":
            lost.kill()
        else:
            lost.stop()
        await once_executed(lambda: client.call("SET", key, "2"), ViewsUnavailable, FAILOVER_S)
        if fault == "hangs":
            lost.resume()
        assert await client.call("GET", key) == b"2"
