"""Sums of counts and their visible part, over random counts, sources and mappings."""

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.catalogue.schemas.contest import Show
from libs.contracts.catalogue_events import ContestRecords, Stored
from libs.legacy.contests import ContestPage, contest_read
from libs.legacy.participants import participant_read
from libs.results.contest_counts import Counts
from libs.results.contest_results import results_of
from libs.tally.contest import Contest
from libs.tally.counts import VoteSums
from libs.views.votes.reply_types import SourceCounts
from services.query.count_answers import record
from services.query.counts_snapshot import Snapshot
from services.query.public_results import hidden
from tests.support.builders.contests import NOW, a_contest

STATUSES = {"a": "approved", "b": "approved", "c": "rejected", "d": "pending"}
IDS = ("1", "2", "3", "4")

numbers = st.integers(0, 50)
figures = st.builds(VoteSums, numbers, numbers, numbers)
by_id = st.dictionaries(st.sampled_from(IDS), figures)
registration = st.builds(
    SourceConfig,
    title=st.just("Text messages"),
    is_in_total=st.booleans(),
    mode=st.just("cumulative"),
    mapping=st.dictionaries(st.sampled_from(IDS), st.sampled_from(["a", "b", "c", "gone"])),
    retired=st.booleans(),
    registered=st.just(NOW),
)
registrations = st.dictionaries(st.sampled_from(["sms", "tv"]), registration)
reports = st.dictionaries(
    st.sampled_from(["sms", "tv"]), st.builds(SourceCounts, st.just(0), numbers, by_id, st.just({}))
)


@st.composite
def counts_of(draw: st.DrawFn) -> Counts:
    """Internal figures whose contest's row is the sum of the participants', and external ones of any kind."""
    cells: dict[tuple[str, str], VoteSums] = {}
    for participant in draw(st.sets(st.sampled_from("abcd"))):
        for source in ("c-free", "c-paid"):
            given = cells[participant, source] = draw(figures)
            for sum_of in ((participant, ""), ("", source), ("", "")):
                cells[sum_of] = cells.get(sum_of, VoteSums()) + given
    return Counts(figures=cells, sources=draw(reports), updated_ms=draw(st.none() | numbers))


def a_record(key: str, number: int, document: dict[str, Any], parent: str = "") -> Stored:
    return Stored(key, 1, NOW + number, NOW + number, number, parent, orjson.dumps(document).decode())


def a_snapshot(
    counts: Counts, sources: dict[str, SourceConfig] | None = None, closed: int = 0, **rules: Any
) -> Snapshot:
    """Of a contest that runs unless it is closed, with four participants of whom two are approved."""
    document = {"contest_config": rules}
    stored = a_record("contest", 0, document)
    entries = enumerate(STATUSES.items(), start=1)
    participants = tuple(a_record(key, at, {"status": status}, "contest") for at, (key, status) in entries)
    contest: Contest = a_contest(participants=STATUSES, closed=closed)
    return Snapshot(
        account="acme",
        contest=contest,
        stored=stored,
        record=ContestRecord.model_validate(document),
        sources=sources or {},
        config=ContestRecords(1, stored, participants),
        named=participants,
        show=Show(),
        phase=contest.phase(NOW),
        updated=NOW,
        counts=counts,
    )


@given(counts_of(), registrations)
@example(
    Counts(sources={"tv": SourceCounts(0, 0, {"1": VoteSums(5, 4, 1)}, {})}),
    {"tv": SourceConfig("Television", False, "cumulative", {"1": "a"}, False, NOW)},
)
def test_totals_are_sums_over_participants_and_over_the_sources_in_the_total(
    counts: Counts, sources: dict[str, SourceConfig]
) -> None:
    made = record(a_snapshot(counts, sources), sources=True)
    entries, totals = made["participants"].values(), made["total_vote_sources"]
    assert set(made["participants"]) == {"a", "b"}
    in_total = [total for total in totals if total["is_in_total"]]
    assert made["count"] == sum(entry["count"] for entry in entries) == sum(total["count"] for total in in_total)
    names = {total["source"] for total in in_total}
    for entry in entries:
        assert entry["count"] == sum(of["count"] for of in entry["vote_sources"] if of["source"] in names)
    for total in totals:
        parts = [
            of["count"] for entry in entries for of in entry["vote_sources"] if of["source"] == total["source"]
        ]
        assert total["count"] == sum(parts)
    external = [total for total in in_total if not total["is_internal"]]
    voters = counts.at("", "")
    for name, internal in (("unique_voter_count", voters.unique), ("anonymous_voter_count", voters.anonymous)):
        assert made[name] == internal + sum(total[name] for total in external)


@given(counts_of(), counts_of(), registrations, st.sampled_from(["participated", "running_number", "vote_count"]))
def test_what_is_shown_while_hidden_does_not_depend_on_the_counts(
    one: Counts, other: Counts, sources: dict[str, SourceConfig], order: str
) -> None:
    rules: dict[str, Any] = {"vote_visibility": "hidden", "participant_order": order, "limit_result_amount": 1}
    assert _hidden(a_snapshot(one, sources, **rules)) == _hidden(a_snapshot(other, sources, **rules))


def _hidden(snapshot: Snapshot) -> tuple[Any, ...]:
    """The results for a reader without special rights, and for the public."""
    totals = snapshot.totals(frozenset({"results:read", "content:read"}))
    page = ContestPage("acme", snapshot.phase, snapshot.stored, snapshot.approved, totals, {})
    answer = hidden(snapshot)
    entries = [participant_read("acme", stored, totals, {}) for stored in snapshot.config.participants]
    return answer.body, answer.headers, contest_read(page), entries


@pytest.mark.parametrize(
    ("closing", "partitions", "sms", "final"),
    [(0, 0, 0, False), (1, 0, 1, False), (1, 1, 0, False), (1, 1, 1, True), (2, 1, 2, False), (2, 2, 2, True)],
)
def test_final_is_what_every_partition_and_every_source_has_passed_the_mark_of(
    closing: int, partitions: int, sms: int, final: bool
) -> None:
    source = SourceConfig("Text messages", True, "cumulative", {}, False, NOW)
    counts = Counts(closed=partitions, sources={"sms": SourceCounts(sms, 0, {}, {})})
    assert results_of(a_contest(closed=closing), {"sms": source}, counts).final is final
    assert results_of(a_contest(closed=closing), {}, counts).final is (closing > 0 and partitions >= closing)
    assert results_of(a_contest(closed=closing), {"tv": source}, counts).final is False
