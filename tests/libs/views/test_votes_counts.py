"""Counts of contests of any size: short calls, one exact position, then changes only."""

import uuid
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from redis import Redis

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.counts import VoteSums
from libs.tally.events import Event, Rating
from libs.tally.fold import PartitionTally
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_reads import CHANGES_PAGE
from tests.libs.views.lua_ledger import Direct, load, unload
from tests.libs.views.partition import Partition
from tests.libs.views.random_logs import folded, logs
from tests.libs.views.recorded_replies import CountCalls
from tests.support.builders.contests import a_cast, a_report
from tests.support.clients.vote_views import FoldInput, VoteViews
from tests.support.hypothesis_examples import PROPERTY, examples

FIRST_ROWS = 100


class Counted:
    """A partition with votes of ever other voters, and the reference fold of the same events."""

    def __init__(self, partition: Partition, incarnation: int) -> None:
        self.partition = partition
        self.incarnation = incarnation
        self.fold = PartitionTally(fence=incarnation)
        self.voters = 0

    def vote(self, participant: int, **changes: Any) -> Event:
        self.voters += 1
        return a_cast(f"p{participant}", voter=f"voter {self.voters}", incarnation=self.incarnation, **changes)

    async def append(self, *events: Event) -> None:
        for at in range(0, len(events), 128):
            batch = events[at : at + 128]
            for offset, event in enumerate(batch, self.partition.end):
                self.fold.evolve(event, offset, 1_000 + offset)
            await self.partition.fold(*batch)

    def assert_equal(self, counts: ContestCounts) -> None:
        """The counts are the fold of all events so far."""
        assert counts.position.offset == self.partition.end
        own = self.fold.contests["contest"]
        expected = {name: sums for name, sums in own.figures.items() if name[1]}
        assert {name: sums for name, sums in counts.figures.items() if name[1] and sums != VoteSums()} == expected
        assert {name: sums for name, sums in counts.ratings.items() if sums.count} == own.ratings
        for name, kept in own.sources.items():
            assert (counts.sources[name].figures, counts.sources[name].held) == (kept.figures, kept.held)


@pytest.fixture
async def counted(partition: Partition) -> Counted:
    return Counted(partition, await partition.incarnation())


async def test_counts_of_10_000_participants_are_read_in_pages_and_exact_while_they_change(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    await counted.append(*(counted.vote(number) for number in range(10_000)))
    rng = Random(1)
    calls = CountCalls(counted.partition.views, monkeypatch)

    async def change() -> None:
        chosen = [rng.randrange(10_000) for _ in range(20)]
        rating = {"form": "rating", "rating": Rating(3, (("s", 1),))}
        votes = [counted.vote(number) for number in chosen]
        await counted.append(*votes, counted.vote(chosen[0], **rating), counted.vote(10_000 + len(calls.rows)))

    calls.between = change
    counted.assert_equal(await counted.partition.counts())
    assert len(calls.rows) >= (10_000 - FIRST_ROWS) / CHANGES_PAGE
    assert max(calls.rows[:-1]) <= CHANGES_PAGE
    assert calls.rows[-1] <= FIRST_ROWS + CHANGES_PAGE + 1


async def test_only_what_changed_is_read_again(counted: Counted, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = [(f"id {number}", 5, 1, 0) for number in range(600)]
    await counted.append(*(counted.vote(number) for number in range(1_000)), a_report("first", *figures))
    partition = counted.partition
    known = await partition.counts()
    calls = CountCalls(partition.views, monkeypatch)
    await counted.append(counted.vote(7), counted.vote(999), a_report("two", ("id 7", 3, 1, 0), ("id 8", 6, 1, 0)))
    known = await partition.counts(known)
    counted.assert_equal(known)
    await counted.append(a_report("release", ("id 9", 1, 1, 0), allow_decrease=True), counted.vote(1_000))
    known = await partition.counts(known)
    counted.assert_equal(known)
    assert await partition.views.counts(0, "contest", known) is None
    assert (calls.rows, calls.figures) == ([FIRST_ROWS + 2, FIRST_ROWS + 2, 0], [2, 2, 0])


async def test_a_view_folded_again_after_its_loss_is_read_as_a_whole(counted: Counted) -> None:
    """Also if it is past the known position: a changed decoder may have folded records that were in quarantine."""
    await counted.append(*(counted.vote(number) for number in range(400)))
    partition = counted.partition
    known = await partition.counts()
    for key in await partition.views._valkey.call("KEYS", f"{partition.views._base(0)}:*"):
        await partition.views._valkey.call("DEL", key)
    again = Counted(Partition(partition.views), await Partition(partition.views).fence())
    again.partition.end = 2
    await again.append(*(again.vote(number % 500) for number in range(900)))
    again.assert_equal(await partition.counts(known))


async def test_one_call_finds_the_partitions_whose_counts_changed(partition: Partition) -> None:
    valkey, namespace = partition.views._valkey, partition.views._namespace
    views = VoteViews(valkey, namespace, 4)
    for number in range(4):
        await views.apply(number, Position("log", 0), [FoldInput(a_cast(), 0, 1_000)], 1)
    known = {number: await views.counts(number, "contest") for number in range(4)}
    assert await views.changed("contest", known) == []
    assert await views.changed("contest", known | {1: None}) == [1]
    await views.apply(1, Position("log", 1), [FoldInput(a_cast(contest="other"), 1, 1_000)], 2)
    await views.apply(2, Position("log", 1), [FoldInput(a_cast(voter="new"), 1, 1_000)], 2)
    await valkey.call("HSET", f"{views._base(3)}:generations", "swaps", 1)
    assert await views.changed("contest", known) == [2, 3]
    await valkey.call("SET", f"{views._base(0)}:g1:counts:other", "broken")
    assert 0 in await views.changed("other", known)


PREFIX = "few_rows_"


@pytest.fixture(scope="module")
def few_first_rows(servers: Any) -> Iterator[Redis]:
    """Functions that number the changes of all participants but the first two."""
    with Redis.from_url(servers.addresses.valkey) as redis:
        load(redis, PREFIX, [(f"FIRST_ROWS = {FIRST_ROWS}", "FIRST_ROWS = 2")])
        yield redis
        unload(redis, PREFIX)


@pytest.fixture(scope="module")
def small_pages() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("libs.views.votes.vote_reads.CHANGES_PAGE", 2)
        yield


@settings(PROPERTY, max_examples=examples(60))
@given(log=logs, data=st.data())
async def test_reading_what_changed_gives_the_same_as_reading_all(
    few_first_rows: Redis, small_pages: None, log: list[LogRecord], data: st.DataObject
) -> None:
    views = VoteViews(Direct(few_first_rows, PREFIX), f"t{uuid.uuid4().hex}", 1)
    projection = VotesProjection(votes_topic("t", 1), views, None)
    known: ContestCounts | None = None
    start, at = Position("log", 0), 0
    while at < len(log):
        batch = log[at : at + data.draw(st.sampled_from([1, 2, 7, 50, 300]))]
        await projection.fold(0, start, batch)
        at, start = at + len(batch), Position("log", batch[-1].offset + 1)
        if data.draw(st.booleans()):
            changed = await views.changed("one", {0: known})
            found = await views.counts(0, "one", known)
            assert changed == ([] if found is None else [0])
            known = found or known
            whole = await views.counts(0, "one")
            assert known is not None
            assert whole is not None
            assert (known.figures, known.ratings, known.sources) == (whole.figures, whole.ratings, whole.sources)
    own = folded(log).contests.get("one")
    counts = await views.counts(0, "one")
    assert counts is not None
    rows = {name: sums for name, sums in counts.figures.items() if name[1] and sums != VoteSums()}
    assert rows == {name: sums for name, sums in (own.figures if own else {}).items() if name[1] and sums.count}
