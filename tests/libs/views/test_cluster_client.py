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
from libs.views.valkey.function_loading import load_functions, open_valkey
from libs.views.valkey.hash_tags import key_base, slot_of
from libs.views.valkey.partition_reads import Mark
from libs.views.valkey.watched_reads import WatchedMarks
from tests.support.eventually import eventually
from tests.support.valkey_cluster import Cluster, Node, valkey_cluster
from tests.support.vote_views import VoteViews

pytestmark = pytest.mark.servers

PARTITIONS = 16
FAILOVER_S = 60.0
"""Node timeout and election take some 3 s; the rest is for a busy machine."""


@pytest.fixture(scope="module")
async def cluster() -> AsyncIterator[Cluster]:
    async with valkey_cluster() as running:
        yield running


@pytest.fixture
async def valkey(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ValkeyClient]:
    """Return a client whose calls outlast the steps of a test."""
    monkeypatch.setattr("libs.views.valkey.client.TIMEOUT_S", 60.0)
    client = open_valkey(cluster.url)
    yield client
    await client.close()


@pytest.fixture(scope="module")
async def functions(cluster: Cluster) -> None:
    client = open_valkey(cluster.url)
    await load_functions(client)
    await client.close()


@contextmanager
def hanging(node: Node) -> Iterator[None]:
    node.stop()
    try:
        yield
    finally:
        node.resume()


async def begin(views: VoteViews, partition: int) -> None:
    await views.apply(partition, Position(f"log{partition}", 0), [], 1)


async def test_every_partition_is_served_and_no_shard_holds_two_more_than_another(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    """The first calls are sent to any server, which redirects them."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(begin(views, partition) for partition in range(PARTITIONS)))
    states = await asyncio.gather(*(views.state(partition) for partition in range(PARTITIONS)))
    assert [state.position.log_id for state in states] == [f"log{partition}" for partition in range(PARTITIONS)]
    found = [
        key.partition
        async for key in generation_keys(valkey, namespace, "votes", votes_topic(namespace, PARTITIONS))
    ]
    assert set(found) == set(range(PARTITIONS))
    bases = [key_base(namespace, "votes", partition, PARTITIONS) for partition in range(PARTITIONS)]
    held = Counter(cluster.node_of(slot_of(base.encode())).port for base in bases)
    assert sorted(held.values()) == [5, 5, 6]


async def test_partitions_share_no_call_where_a_single_server_is_a_cluster(
    cluster: Cluster, functions: None, namespace: str
) -> None:
    """It refuses the first call for its slots, whichever of them it has."""
    node = cluster.node_of(slot_of(key_base(namespace, "votes", 0, PARTITIONS).encode()))
    alone = open_valkey(f"redis://127.0.0.1:{node.port}/0")
    views = VoteViews(alone, namespace, PARTITIONS)
    assert views.call_group(0) == views.call_group(1)
    with pytest.raises(NotExecuted):
        await views.confirm_together([(0, 1), (1, 1)])
    assert views.call_group(0) != views.call_group(1)
    assert await views.confirm_together([(0, 1)]) == [False]
    await alone.close()


async def test_closings_are_read_by_a_call_for_each_primary_and_raised_by_one_for_each_partition(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    views = VoteViews(valkey, namespace, PARTITIONS)
    partitions = range(PARTITIONS)
    await asyncio.gather(*(begin(views, partition) for partition in partitions))
    assert len({views.call_group(partition) for partition in partitions}) == PARTITIONS
    for partition in partitions:
        assert await views.raise_together([partition], {"contest": 2}) == [None]
    assert len(views.live.divided(partitions)) == len(cluster.nodes)
    states = await views.closings(partitions, "contest")
    assert sorted(states) == [*partitions]
    assert {state.folded for state in states.values()} == {1}


async def test_each_primary_has_the_functions(cluster: Cluster, functions: None) -> None:
    names = {library.loaded_name for library in libraries()}
    for node in cluster.nodes:
        listed = await node.command("FUNCTION", "LIST")
        assert {library[b"library_name"].decode() for library in listed} == names


async def test_a_primary_without_functions_gets_them_when_it_is_called(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    await cluster.nodes[1].command("FUNCTION", "FLUSH", "SYNC")
    views = VoteViews(valkey, namespace, PARTITIONS)

    async def all_answer() -> bool:
        try:
            await asyncio.gather(*(views.state(partition) for partition in range(PARTITIONS)))
        except NotExecuted:
            return False
        return True

    await eventually(all_answer)


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
        back = Move.__new__(Move)
        back.slot, back.source, back.target = self.slot, self.target, self.source
        await back.__class__.__aenter__(back)
        await back.end()


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
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    """The key that names the partition does not exist, so either server would take the other to hold it."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await begin(views, 3)
    base = key_base(namespace, "votes", 3, PARTITIONS)
    async with Move(cluster, slot_of(base.encode())) as move:
        reads = [asyncio.ensure_future(views.state(3)) for _ in range(20)]
        folds = asyncio.ensure_future(views.apply(3, Position("log3", 1), [], 2))
        await move.move(f"{base}:generations")
        for _ in range(10):
            assert await valkey.call("HLEN", f"{base}:generations") > 0
        assert not any(read.done() for read in reads)
        await move.end()
        assert {read.position.log_id for read in await asyncio.gather(*reads)} == {"log3"}
        await folds
        assert (await views.state(3)).position == Position("log3", 2)


async def test_partitions_of_one_server_are_read_by_one_call_while_a_slot_is_moved(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    """That of the slot is never read in part; the others answer meanwhile."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(begin(views, partition) for partition in range(PARTITIONS)))
    groups = views.live.groups(range(PARTITIONS))
    assert sorted(map(len, groups)) == [5, 5, 6]
    group = next(each for each in groups if 3 in each)
    base = key_base(namespace, "votes", 3, PARTITIONS)
    async with Move(cluster, slot_of(base.encode())) as move:
        await move.move(f"{base}:g1:position")
        marks = await views.live.marks(group)
        assert {partition for partition, mark in marks.items() if isinstance(mark, ViewsUnavailable)} == {3}
        all_marks = asyncio.ensure_future(views.live.all_marks(range(PARTITIONS)))
        await views.live.marks(group)
        assert not all_marks.done()
        await move.end()
        assert {mark.position for mark in (await all_marks).values()} == {
            Position(f"log{partition}", 1) for partition in range(PARTITIONS)
        }


async def test_a_change_by_another_process_after_its_slot_was_moved_is_found_by_a_read_in_turn(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    """The watcher asks the former server for changes until then."""
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(begin(views, partition) for partition in range(PARTITIONS)))
    marks = WatchedMarks(views.live)
    await marks.changed_marks(range(PARTITIONS))
    other = open_valkey(cluster.url)
    async with Move(cluster, slot_of(key_base(namespace, "votes", 3, PARTITIONS).encode())) as move:
        await move.end()
        for offset in (2, 3):
            await VoteViews(other, namespace, PARTITIONS).apply(3, Position("log3", offset - 1), [], offset)

            async def is_seen(offset: int = offset) -> bool:
                return (await marks.changed_marks(range(PARTITIONS))).get(3) == Mark(Position("log3", offset), 0)

            await eventually(is_seen)
    await other.close()


async def test_slots_that_are_moved_at_once_refuse_nobody(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    views = VoteViews(valkey, namespace, PARTITIONS)
    await begin(views, 5)
    slot = slot_of(key_base(namespace, "votes", 5, PARTITIONS).encode())
    source = cluster.node_of(slot)
    target = next(node for node in cluster.nodes if node is not source)
    at = 1
    for giver, taker in ((source, target), (target, source)):
        await giver.command("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", await taker.id())

        async def has_moved(taker: Node = taker) -> bool:
            return any(
                first <= slot <= last and primary[1] == taker.port
                for first, last, primary, *_ in await taker.command("CLUSTER", "SLOTS")
            )

        while not await has_moved():
            await views.apply(5, Position("log5", at), [], at + 1)
            at += 1
        await views.apply(5, Position("log5", at), [], at + 1)
        at += 1
    assert (await views.state(5)).position == Position("log5", at)


async def test_a_write_waits_while_its_primary_lacks_its_replicas(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    node = cluster.node_of(slot_of(key_base(namespace, "votes", 7, PARTITIONS).encode()))
    await node.command("CONFIG", "SET", "min-replicas-to-write", 1)
    write = asyncio.ensure_future(begin(VoteViews(valkey, namespace, PARTITIONS), 7))

    async def is_refused() -> bool:
        return "errorstat_NOREPLICAS" in await node.command("INFO", "errorstats") or write.done()

    await eventually(is_refused)
    assert not write.done()
    await node.command("CONFIG", "SET", "min-replicas-to-write", 0)
    await write


async def test_a_shard_that_hangs_delays_no_other(
    cluster: Cluster, valkey: ValkeyClient, functions: None, namespace: str
) -> None:
    views = VoteViews(valkey, namespace, PARTITIONS)
    await asyncio.gather(*(views.state(partition) for partition in range(PARTITIONS)))
    hung = cluster.nodes[2]
    theirs, others = list[int](), list[int]()
    for partition in range(PARTITIONS):
        node = cluster.node_of(slot_of(key_base(namespace, "votes", partition, PARTITIONS).encode()))
        (theirs if node is hung else others).append(partition)
    with hanging(hung):
        waiting = [asyncio.ensure_future(views.state(partition)) for partition in theirs]
        for _ in range(5):
            await asyncio.gather(*(views.state(partition) for partition in others))
        assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)


async def test_a_lost_shard_refuses_its_own_calls_and_is_not_overlooked_by_a_scan(namespace: str) -> None:
    async with valkey_cluster() as cluster:
        cluster.nodes[0].kill()
        client = open_valkey(cluster.url)
        await load_functions(client)
        views = VoteViews(client, namespace, PARTITIONS)
        found = await asyncio.gather(
            *(views.state(partition) for partition in range(PARTITIONS)), return_exceptions=True
        )
        refused = [partition for partition, each in enumerate(found) if isinstance(each, NotExecuted)]
        assert len(refused) in (5, 6)
        assert len([each for each in found if isinstance(each, BaseException)]) == len(refused)
        with pytest.raises(ViewsUnavailable):
            _ = [
                key
                async for key in generation_keys(client, namespace, "votes", votes_topic(namespace, PARTITIONS))
            ]
        await client.close()


@pytest.mark.parametrize("fault", ["killed", "hangs"])
async def test_a_replica_takes_over_from_a_primary(namespace: str, fault: str) -> None:
    async with valkey_cluster(replicas=True) as cluster:
        client = open_valkey(cluster.url)
        await load_functions(client)
        lost = cluster.nodes[1]
        key = next(key for key in map(str, range(99)) if cluster.node_of(slot_of(key.encode())) is lost)
        await client.call("SET", key, "1")
        if fault == "killed":
            lost.kill()
        else:
            lost.stop()

        async def is_served() -> bool:
            try:
                await client.call("SET", key, "2")
            except ViewsUnavailable:
                return False
            return True

        await eventually(is_served, deadline_s=FAILOVER_S)
        if fault == "hangs":
            lost.resume()
        assert await client.call("GET", key) == b"2"
        await client.close()
