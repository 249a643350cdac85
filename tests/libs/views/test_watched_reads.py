"""Many partitions are watched by one call that reads none of them, until one changes."""

from __future__ import annotations

import asyncio

import pytest

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import purchases_topic, votes_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import Fence, LogCreated
from libs.views.generations.generations import Generations
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey import watched_reads
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.connection import OtherLayout
from libs.views.valkey.hash_tags import key_base
from libs.views.valkey.partition_reads import Mark
from libs.views.valkey.watched_reads import WatchedMarks
from libs.views.votes.reply_types import Doubt
from tests.libs.views.counted_client import CountedClient
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_vote
from tests.support.clients.vote_views import VoteViews
from tests.support.servers.freshness import make_fresh

PARTITIONS = 64
EVERY = range(PARTITIONS)
ALL = tuple(EVERY)
NOTED = "votes_noted_changes"


@pytest.fixture
def valkey(valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch) -> CountedClient:
    """Without reads in turn."""
    monkeypatch.setattr(watched_reads, "LEAST_HOLD_S", 3_600.0)
    monkeypatch.setattr(watched_reads, "LONGEST_HOLD_S", 3_600.0)
    return CountedClient(valkey)


@pytest.fixture
def views(valkey: CountedClient, namespace: str) -> VoteViews:
    return VoteViews(valkey, namespace, PARTITIONS)


@pytest.fixture
async def marks(views: VoteViews, valkey: CountedClient) -> WatchedMarks:
    """After the first look, at all partitions."""
    marks = WatchedMarks(views.live)
    assert await marks.changed_marks(EVERY) == dict.fromkeys(EVERY, Mark(None, 0))
    assert valkey.read == [PARTITIONS]
    valkey.read.clear()
    valkey.calls.clear()
    return marks


async def test_only_partitions_that_were_folded_are_read_again(
    valkey: CountedClient, views: VoteViews, marks: WatchedMarks
) -> None:
    for _ in range(3):
        assert await marks.changed_marks(EVERY) == {}
    assert valkey.calls == {NOTED: 3}
    for partition in (3, 5, 3):
        await views.apply(partition, await views.position(partition) or Position("log", 0), [], 7 + partition)
    found = await marks.changed_marks(EVERY)
    assert found == {3: Mark(Position("log", 10), 0), 5: Mark(Position("log", 12), 0)}
    assert await marks.changed_marks(EVERY) == {}


async def test_a_swap_is_seen(
    valkey: CountedClient, views: VoteViews, marks: WatchedMarks, namespace: str
) -> None:
    generations = Generations(valkey, namespace, "votes", votes_topic(namespace, PARTITIONS))
    await views.apply(3, Position("log", 0), [], 1)
    assert await generations.open(3, 2)
    await VoteViews(valkey, namespace, PARTITIONS, generation=2).apply(3, Position("log", 0), [], 1)
    await marks.changed_marks(EVERY)
    assert (await generations.swap(3, 2)).done
    assert await marks.changed_marks(EVERY) == {3: Mark(Position("log", 1), 1)}


async def test_all_are_read_once_a_read_in_turn_finds_a_change_that_was_not_noted(
    valkey: CountedClient, views: VoteViews, marks: WatchedMarks, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the functions of another version, or of views that were emptied."""
    [its] = marks._changed._watched.values()
    for partition in (3, 5):
        await valkey.call("HSET", f"{views._base(partition)}:g1:position", "log", "x")
    assert await marks.changed_marks(EVERY) == {}
    its.turn_at = its.until[3] = 0.0
    found = await marks.changed_marks(EVERY)
    assert (found[3], found[5]) == (Mark(Position("x", 0), 0), Mark(Position("x", 0), 0))
    assert valkey.read == [1, PARTITIONS]
    monkeypatch.setattr(watched_reads, "LEAST_HOLD_S", 0.0)
    marks._changed.note_read(ALL, ALL)
    its.turn_at = 0.0
    await marks.changed_marks(EVERY)
    assert valkey.read == [1, PARTITIONS, PARTITIONS], "they are all read at short intervals for a while"


@pytest.mark.parametrize("of", ["server", "library"])
async def test_all_are_read_when_the_server_was_restarted_or_has_loaded_the_functions_again(
    views: VoteViews, of: str
) -> None:
    cursor, _ = await views.live.changes(ALL, "views", b"")
    server, loaded, number = cursor.split(b" ")
    assert (await views.live.changes(ALL, "views", cursor))[1] == []
    other = b" ".join([b"other" + server, loaded, number] if of == "server" else [server, b"1.1", number])
    assert (await views.live.changes(ALL, "views", other))[1] is None


async def test_all_are_read_after_more_changes_than_are_kept(views: VoteViews) -> None:
    """These are counted for all partitions of the server together."""
    cursor, _ = await views.live.changes(ALL, "views", b"")
    await views.apply(0, Position("log", 0), [], 1)
    assert (await views.live.changes(ALL, "views", cursor))[1] == [0]
    for _ in range(41):
        await asyncio.gather(*(views.apply(0, Position("log", 0), [], 1) for _ in range(100)))
    assert (await views.live.changes(ALL, "views", cursor))[1] is None


async def test_a_partition_that_could_not_be_read_is_read_again(
    valkey: CountedClient, views: VoteViews, marks: WatchedMarks
) -> None:
    await views.apply(3, Position("log", 0), [], 7)
    await valkey.call("HSET", f"{views._base(3)}:generations", "schema", 9999)
    for _ in range(2):
        with pytest.raises(OtherLayout):
            await marks.changed_marks(EVERY)
    await valkey.call("HDEL", f"{views._base(3)}:generations", "schema")
    assert (await marks.changed_marks(EVERY))[3] == Mark(Position("log", 7), 0)


@pytest.mark.parametrize("lost", [NOTED, "votes_positions"])
async def test_no_change_is_lost_with_an_answer(
    valkey: CountedClient, views: VoteViews, marks: WatchedMarks, lost: str
) -> None:
    await views.apply(3, Position("log", 0), [], 7)
    valkey.away = {lost}
    with pytest.raises(ViewsUnavailable):
        await marks.changed_marks(EVERY)
    valkey.away = set()
    assert (await marks.changed_marks(EVERY))[3] == Mark(Position("log", 7), 0)


async def test_gates_are_read_again_when_they_were_shut_or_opened_or_have_a_new_reservation(
    views: VoteViews,
) -> None:
    watched, partition = views.watch_doubts(), Partition(views)
    await partition.fence()
    [group] = watched.groups(EVERY)
    assert (await watched.read(group))[0] == Doubt(True, False, None)
    assert 0 not in await watched.read(group)
    await partition.shut()
    assert (await watched.read(group))[0] == Doubt(False, True, None)
    incarnation = await partition.fence()
    assert (await watched.read(group))[0] == Doubt(True, False, None)
    granted = await partition.grant(a_vote())
    assert (await watched.read(group))[0] == Doubt(True, False, granted.terms.accepted_at)
    await partition.fold(Fence(incarnation + 1))  # as of a suspended projector: this server did not ask for it
    assert (await watched.read(group))[0] == Doubt(False, True, None)


async def test_gates_that_are_shut_are_read_by_each_look_and_open_ones_are_not(
    valkey: CountedClient, views: VoteViews
) -> None:
    watched = views.watch_doubts()
    await Partition(views).fence()
    [group] = watched.groups(EVERY)
    await watched.read(group)
    await watched.read(group)
    assert valkey.read == [PARTITIONS, PARTITIONS - 1]


async def test_a_view_that_becomes_fresh_or_begins_again_is_seen(valkey: CountedClient, namespace: str) -> None:
    views = PurchaseViews(valkey, namespace, purchases_topic(namespace, PARTITIONS))
    [group] = views.fresh.groups(EVERY)
    begun = [(LogRecord(0, 1, b""), LogCreated("log"))]
    for partition in EVERY:
        await views.apply(partition, Position("log", 0), begun, 1)
    assert await views.fresh.stale(group) == list(EVERY)
    for partition in EVERY:
        await make_fresh(views.fresh, partition)
    assert await views.fresh.stale(group) == []
    await valkey.call("DEL", f"{key_base(namespace, 'purchases', 3, PARTITIONS)}:g1:position")
    await views.apply(3, Position("log", 0), begun, 1)
    assert await views.fresh.stale(group) == [3]
