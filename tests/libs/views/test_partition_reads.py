"""Many partitions are read by one call for each server, and each answers for itself."""

from __future__ import annotations

import pytest

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import purchases_topic
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import ContestClosed, LogCreated
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.connection import OtherLayout
from libs.views.valkey.partition_reads import Mark
from tests.libs.views.counted_client import CountedClient
from tests.libs.views.partition import Partition
from tests.support.builders.contests import a_vote
from tests.support.clients.vote_views import FoldInput, VoteViews
from tests.support.servers.freshness import make_fresh

PARTITIONS = 64
EVERY = range(PARTITIONS)


@pytest.fixture
def valkey(valkey: ValkeyClient) -> CountedClient:
    return CountedClient(valkey)


@pytest.fixture
def views(valkey: CountedClient, namespace: str) -> VoteViews:
    return VoteViews(valkey, namespace, PARTITIONS)


async def test_all_positions_are_read_by_one_call(valkey: CountedClient, views: VoteViews) -> None:
    await views.apply(3, Position("log", 0), [], 7)
    marks = await views.live.all_marks(EVERY)
    assert valkey.calls["votes_positions"] == 1
    assert marks == dict.fromkeys(EVERY, Mark(None, 0)) | {3: Mark(Position("log", 7), 0)}


async def test_a_partition_that_cannot_be_read_hides_no_other_and_is_an_error_of_all(
    valkey: CountedClient, views: VoteViews
) -> None:
    """A closing must not pass for one without pending votes."""
    await valkey.call("HSET", f"{views._base(3)}:generations", "live", 1, "schema", 9999)
    [group] = views.live.groups(EVERY)
    marks = dict(await views.live.marks(group))
    assert isinstance(marks.pop(3), OtherLayout)
    assert {*marks.values()} == {Mark(None, 0)}
    for read in (views.live.all_marks(EVERY), views.closings(EVERY, "contest")):
        with pytest.raises(OtherLayout):
            await read


async def test_doubts_are_those_of_each_partitions_state(valkey: CountedClient, views: VoteViews) -> None:
    [group] = views.live.groups(EVERY)
    assert not any(doubt.open for doubt in (await views.doubts(group)).values())  # type: ignore[union-attr]
    partition = Partition(views)
    await partition.fence()
    granted = await partition.grant(a_vote())
    doubts, state = await views.doubts(group), await views.state(0)
    assert doubts[0] == (True, False, granted.terms.accepted_at) == (state.open, False, state.oldest_pending)
    await partition.set_clock(state.now + 3_600_000_000)
    assert (await views.doubts(group))[0] == (True, True, None)


@pytest.fixture
async def partition(views: VoteViews, valkey: CountedClient) -> Partition:
    """Partition 0, with an open gate and a pending vote."""
    partition = Partition(views)
    await partition.fence()
    await partition.grant(a_vote())
    return partition


@pytest.mark.usefixtures("partition")
async def test_closings_of_all_partitions_are_read_by_one_call(valkey: CountedClient, views: VoteViews) -> None:
    await views.apply(3, Position("log", 0), [FoldInput(ContestClosed("contest", 1), 0, 1_000)], 1)
    valkey.calls.clear()
    states = await views.closings(EVERY, "contest")
    assert valkey.calls == {"votes_closing": 1}
    assert [*states] == [*EVERY]
    assert {number for number, state in states.items() if state.open} == {0}
    assert {number for number, state in states.items() if state.pending} == {0}
    assert {number for number, state in states.items() if state.closed} == {3}


@pytest.mark.usefixtures("partition")
async def test_versions_are_raised_in_all_partitions_by_one_call(valkey: CountedClient, views: VoteViews) -> None:
    await valkey.call("SET", f"{views._base(3)}:config", "no hash")
    valkey.calls.clear()
    errors = await views.raise_together(EVERY, {"contest": 2, "other": 7})
    assert valkey.calls == {"votes_raise": 1}
    assert {number for number, error in enumerate(errors) if error is not None} == {3}
    assert isinstance(errors[3], ViewsUnavailable)
    assert await valkey.call("HGETALL", f"{views._base(0)}:config") == [b"contest", b"2"]
    floors = await valkey.call("HGETALL", f"{views._base(5)}:floors")
    assert floors == [b"contest", b"2", b"other", b"7"]


async def test_views_that_are_not_fresh_are_found_by_one_call(valkey: CountedClient, namespace: str) -> None:
    views = PurchaseViews(valkey, namespace, purchases_topic(namespace, PARTITIONS))
    for partition in (3, 5):
        await views.apply(partition, Position("log", 0), [(LogRecord(0, 1, b""), LogCreated("log"))], 1)
    await make_fresh(views.fresh, 5)
    valkey.calls.clear()
    [group] = views.fresh.groups(EVERY)
    assert await views.fresh.stale(group) == [partition for partition in EVERY if partition != 5]
    assert await views.with_open(EVERY) == set()
    assert await views.with_bought(EVERY) == set()
    assert valkey.calls == {
        "purchases_fresh": 1,
        "purchases_with_open": 1,
        "purchases_with_bought": 1,
        "purchases_noted_changes": 3,
    }
