"""History of random logs: the reported changes of all events add up to the fold."""

import heapq
from collections import Counter
from functools import partial
from itertools import accumulate

from hypothesis import given

from libs.audit.contest_history import History, HistoryStep
from libs.audit.partition_merge import MergedRecord
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.results.contest_counts import counts_of
from libs.tally.events import ContestClosed, ContestReopened, Event, Fence, SourceReported, VoteCast, VoteRemoved
from libs.tally.fold import ContestTally
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.random_logs import folded, is_poison, logs
from tests.support.builders.contests import a_cast, a_removal, a_restore, a_void

CONTEST = "one"


def steps_of(*partitions: list[LogRecord]) -> list[HistoryStep]:
    """The steps of the contest over the partitions, merged as the command merges them."""
    history = History(CONTEST, range(len(partitions)))
    entries = heapq.merge(
        *(_entries(number, records) for number, records in enumerate(partitions)),
        key=lambda entry: (entry.time_ms, entry.partition, entry.record.offset),
    )
    return [step for step in map(history.take, entries) if step is not None]


def _entries(partition: int, records: list[LogRecord]) -> list[MergedRecord[Event]]:
    times = accumulate((record.timestamp_ms for record in records), max)
    return [
        MergedRecord(time_ms, partition, record, vote_codec.decode(record.value))
        for time_ms, record in zip(times, records, strict=True)
    ]


@given(logs, logs)
def test_the_outcomes_of_events_add_up_to_the_fold(one: list[LogRecord], other: list[LogRecord]) -> None:
    said: dict[str, int] = {}
    for step in steps_of(one, other):
        if isinstance(step.event, SourceReported):
            continue
        for name, (before, after) in {"": step.contest.total, **step.contest.parts}.items():
            assert said.get(name, 0) == before
            said[name] = after
    tallies = [folded(log).contests.get(CONTEST, ContestTally()) for log in (one, other)]
    counts = counts_of(tallies, {})
    assert {name: count for name, count in said.items() if count} == {
        name: figures.count for (name, source), figures in counts.figures.items() if not source and figures.count
    }


@given(logs)
def test_outcomes_are_the_statuses_of_the_ledger(log: list[LogRecord]) -> None:
    steps = steps_of(log)
    tally = folded(log).contests.get(CONTEST, ContestTally())
    outcomes = Counter(step.outcome for step in steps if isinstance(step.event, VoteCast | VoteRemoved))
    replaced = sum(step.replaced is not None for step in steps)
    assert outcomes["overruled"] == tally.ids[VoteStatus.OVERRULED]
    assert outcomes["late"] == tally.ids[VoteStatus.LATE]
    assert replaced == tally.ids[VoteStatus.REPLACED]
    at_reopening = tally.ids[VoteStatus.REMOVED] - outcomes["removed"] - outcomes["used up"]
    assert at_reopening >= 0
    assert at_reopening == 0 or any(isinstance(step.event, ContestReopened) for step in steps)
    assert outcomes["counted"] + outcomes["used up"] + outcomes["late"] + outcomes[
        "overruled"
    ] + at_reopening >= sum(tally.ids[status] for status in VoteStatus)


@given(logs)
def test_a_partition_tells_of_every_event_that_names_the_contest(log: list[LogRecord]) -> None:
    named = [record for record in log if getattr(vote_codec.decode(record.value), "contest", None) == CONTEST]
    steps = steps_of(log)
    assert [step.entry.record for step in steps] == named
    for step in steps:
        assert (step.outcome == "quarantined") == is_poison(step.entry.record)
        if step.outcome in ("fenced", "duplicate", "quarantined"):
            assert step.partition.total[0] == step.partition.total[1]


def outcomes(*events: Event) -> list[tuple[str, tuple[int, int]]]:
    """Outcome and the contest's votes, before and after, of each event of one partition that has a step."""
    records = [LogRecord(offset, 1_000, vote_codec.encode(event)) for offset, event in enumerate(events)]
    return [(step.outcome, step.contest.total) for step in steps_of(records)]


def test_each_outcome_has_its_word() -> None:
    vote = partial(a_cast, contest=CONTEST)
    assert outcomes(
        vote("a", 2, vote_id="1", max_contest=3),
        vote("a", 2, vote_id="1", max_contest=3),
        vote("a", 9, vote_id="3", max_contest=3),
        a_cast("a", vote_id="4", contest="another"),
        a_removal("5", contest=CONTEST),
        a_void("1", contest=CONTEST),
        a_restore("1", contest=CONTEST),
        vote("b", 0, vote_id="6"),
        ContestClosed(CONTEST, 1),
        vote("b", vote_id="7"),
        a_removal("1", contest=CONTEST),
        ContestReopened(CONTEST, 1),
        Fence(7),
        vote("a", vote_id="2"),
    ) == [
        ("counted", (0, 2)),
        ("duplicate", (2, 2)),
        ("overruled", (2, 2)),
        ("used up", (2, 2)),
        ("voided", (2, 0)),
        ("restored", (0, 2)),
        ("quarantined", (2, 2)),
        ("closed", (2, 2)),
        ("late", (2, 2)),
        ("waits", (2, 2)),
        ("reopened", (2, 0)),
        ("fenced", (0, 0)),
    ]
