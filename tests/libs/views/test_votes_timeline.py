"""Counts at the end of any minute equal the log until then, for any batches."""

import uuid
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import votes_topic
from libs.projection.votes_projection import VotesProjection
from libs.tally.counts import VoteSums
from libs.tally.events import Event
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import VoteStatus
from libs.views.generations.generations import Generations
from libs.views.valkey.client import ValkeyClient
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.ledger_export import Fact, export
from libs.views.votes.reply_types import ContestCounts, SourceCounts, SourceFigures
from libs.views.votes.timeline import MINUTE_MS, Timeline
from tests.libs.views.random_logs import is_poison, logs
from tests.support.builders.contests import a_cast, a_report
from tests.support.clients.intercepted_valkey import InterceptedValkey, plain_name
from tests.support.clients.vote_views import VoteViews
from tests.support.hypothesis_examples import PROPERTY, examples

CONTESTS = ("one", "two:é")
TOPIC = votes_topic("t", 1)


class Folded:
    """One partition, folded by hand; `generation` beside the live one where it is named."""

    def __init__(self, valkey: ValkeyClient, namespace: str = "") -> None:
        self.valkey = valkey
        self.namespace = namespace or f"t{uuid.uuid4().hex}"
        self.timeline = Timeline(VoteViews(valkey, self.namespace, 1))

    async def fold(
        self, log: Sequence[LogRecord], sizes: Sequence[int] = (), generation: int | None = None
    ) -> None:
        """In pieces of these sizes; the last takes the rest."""
        views = VoteViews(self.valkey, self.namespace, 1, generation=generation)
        projection = VotesProjection(TOPIC, views, AddressCounters(self.valkey, self.namespace))
        start, at = Position("log", log[0].offset), 0
        for size in (*sizes, len(log)):
            if piece := log[at : at + size]:
                await projection.fold(0, start, piece)
                start, at = Position("log", piece[-1].offset + 1), at + size

    async def kept(self, generation: int = 1) -> dict[str, dict[Fact, Any]]:
        """The content of the timelines."""
        views = VoteViews(self.valkey, self.namespace, 1, generation=generation)
        found = {}
        for contest in CONTESTS:
            rows = [row for page in await export(views, 0, "minutes", contest) for row in page.facts.items()]
            found[contest] = dict(rows)
            assert len(found[contest]) == len(rows), "a minute of a subject is there once"
        return found

    async def forget(self) -> None:
        if keys := await self.valkey.call("KEYS", f"{self.namespace}:*"):
            await self.valkey.call("DEL", *keys)


def seen(counts: ContestCounts) -> dict[Any, Any]:
    """The answer to a reader, but for zeros."""
    table: dict[Any, Any] = dict(counts.figures)
    table |= {("rating", name): sums for name, sums in counts.ratings.items()}
    table |= {
        ("source", name): (source.closed, source.updated_ms, source.figures, source.held)
        for name, source in counts.sources.items()
    }
    if counts.changed >= 0:
        table["ids"] = dict(counts.ids)
        table["marks"] = counts.changed, counts.updated_ms, counts.closed, counts.reopened
    return {cell: value for cell, value in table.items() if value != VoteSums()}


def said(tally: ContestTally) -> dict[Any, Any]:
    """The same of the fold."""
    table: dict[Any, Any] = {}
    for participant in {name for name, _ in tally.figures}:
        free, paid, both = (
            tally.figures.get((participant, source), VoteSums()) for source in ("c-free", "c-paid", "")
        )
        table[participant, "c-free"], table[participant, "c-paid"] = replace(free), replace(paid)
        table[participant, ""] = VoteSums(free.count + paid.count, both.unique, both.anonymous)
    table |= {("rating", name): sums for name, sums in tally.ratings.items()}
    table |= {
        ("source", name): (source.closed, source.updated_ms, dict(source.figures), dict(source.held))
        for name, source in tally.sources.items()
    }
    table["ids"] = {status: tally.ids[status] for status in VoteStatus}
    table["marks"] = tally.last_offset, tally.last_time_ms, tally.closed, tally.reopened
    return {cell: value for cell, value in table.items() if value != VoteSums()}


def minutes_of(log: Sequence[LogRecord]) -> dict[str, dict[int, dict[Any, Any]]]:
    """By contest, what it was after the last event of each minute that changed it."""
    tally, found = PartitionTally(), defaultdict[str, dict[int, dict[Any, Any]]](dict)
    for record in log:
        event = vote_codec.decode(record.value)
        if isinstance(event, Undecodable) or is_poison(record):
            continue
        tally.evolve(event, record.offset, record.timestamp_ms)
        contest = tally.contests.get(name := getattr(event, "contest", ""))
        if contest is not None and contest.last_offset == record.offset:
            found[name][contest.last_time_ms // MINUTE_MS] = said(contest)
    return found


def stretched(log: Sequence[LogRecord], factor: int) -> list[LogRecord]:
    return [record._replace(timestamp_ms=record.timestamp_ms * factor) for record in log]


@settings(PROPERTY, max_examples=examples(60))
@given(
    log=st.builds(stretched, logs, st.sampled_from([100, 3_000, 20_000])),
    sizes=st.lists(st.sampled_from([1, 2, 7, 50, 130]), max_size=40),
)
async def test_at_the_end_of_every_minute_it_is_the_fold_of_what_came_until_then(
    valkey: ValkeyClient, log: list[LogRecord], sizes: list[int]
) -> None:
    cut, whole = Folded(valkey), Folded(valkey)
    await cut.fold(log, sizes)
    await whole.fold(log)
    assert await cut.kept() == await whole.kept()
    expected = minutes_of(log)
    for contest in CONTESTS:
        changed = sorted(expected[contest])
        asked = sorted({-2, -1, 0, 2**31, *changed, *(minute - 1 for minute in changed)})
        present = await VoteViews(valkey, cut.namespace, 1).counts(0, contest)
        assert present is not None
        names, sources = {name for name, _ in present.figures if name}, present.sources
        for minute in asked if len(asked) < 60 else asked[:: len(asked) // 30]:
            before = bisect_right(changed, minute)
            then = expected[contest][changed[before - 1]] if before else {}
            assert seen(await cut.timeline.counts_at(0, contest, minute, names, sources)) == then, minute
        if changed:
            await compare_changes(cut, contest, changed[len(changed) // 2], present, expected[contest])
    await cut.forget()
    await whole.forget()


async def compare_changes(
    folded: Folded, contest: str, begin: int, present: ContestCounts, expected: dict[int, dict[Any, Any]]
) -> None:
    """Add the changes since `begin` to what external sources had reported before, and compare every minute."""
    before = await folded.timeline.counts_at(0, contest, begin - 1, [], present.sources)
    reported = {(name, its): of for name, source in before.sources.items() for its, of in source.figures.items()}
    pages = [page async for page in folded.timeline.changes(0, contest, range(begin, 2**31), [], present.sources)]
    changes = sorted((change for page in pages for change in page.changes), key=lambda change: change.minute)
    for minute, then in expected.items():
        while changes and changes[0].minute <= minute:
            change = changes.pop(0)
            assert isinstance(change.value, SourceFigures)
            reported[change.subject] = change.value.figures
        sources = {cell[1]: said[2] for cell, said in then.items() if cell[0] == "source"}
        if minute >= begin:
            assert reported == {(name, its): of for name, figs in sources.items() for its, of in figs.items()}
    assert not changes


def an_evening() -> list[LogRecord]:
    """A vote a minute, and a report each other minute."""
    events: list[Event] = []
    for number in range(10):
        events.append(a_cast("ab"[number % 2], voter=f"voter {number}", contest="one"))
        events.append(a_report(f"report {number}", ("x", number, 1, 0), contest="one"))
    return [
        LogRecord(offset, (offset // 2 + 1) * MINUTE_MS, vote_codec.encode(event))
        for offset, event in enumerate(events)
    ]


class Watched(InterceptedValkey):
    """Keeps how many arguments each call of a function had; `before` happens before each."""

    def __init__(self, valkey: ValkeyClient) -> None:
        super().__init__(valkey)
        self.sizes: list[int] = []
        self.before: list[Awaitable[Any]] = []

    async def call(self, *command: Any) -> Any:
        if plain_name(command[1]) == "votes_counts_at":
            self.sizes.append(len(command) - 7)
            if self.before and len(self.sizes) == 2:
                await self.before.pop()
        return await super().call(*command)


async def test_a_past_minute_is_read_in_short_calls_of_one_generation(
    valkey: ValkeyClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.views.votes.timeline.SUBJECTS", 2)
    folded, log, watched = Folded(valkey), an_evening(), Watched(valkey)
    await folded.fold(log)
    past = Timeline(VoteViews(watched, folded.namespace, 1))
    sms = SourceCounts(0, 0, dict.fromkeys("xy", VoteSums()), {})
    subjects = ["a", "b", "none", "never"], {"sms": sms}
    whole = await past.counts_at(0, "one", 5, *subjects)
    assert watched.sizes == [2, 2, 2, 2]
    assert [whole.figures[name, ""].count for name in ("", "a", "b")] == [5, 3, 2]
    assert whole.sources["sms"].figures["x"].count == 4
    generations = Generations(valkey, folded.namespace, "votes", TOPIC)
    assert await generations.open(0, 2)
    await folded.fold(log, generation=2)
    watched.sizes, watched.before = [], [generations.swap(0, 2)]
    again = await past.counts_at(0, "one", 5, *subjects)
    assert len(watched.sizes) == 8
    assert again == replace(whole, swaps=1)
    await folded.forget()
