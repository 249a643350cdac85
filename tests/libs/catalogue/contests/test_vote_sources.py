"""Reports of an external source are counted or held, for any mapping."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from libs.catalogue.contests.vote_sources import ExternalCounts, Held, SourceConfig, external_counts, split
from libs.tally.counts import VoteSums
from libs.tally.events import SourceReported
from libs.tally.sources import SourceTally
from tests.support.builders.contests import a_report

IDS = st.sampled_from(["1", "2", "3", "4"])
PARTICIPANTS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.integers(0, 5)
COUNTS = st.dictionaries(IDS, st.tuples(NUMBERS, NUMBERS, NUMBERS)).map(
    lambda rows: tuple((mapped, *numbers) for mapped, numbers in rows.items())
)
REPORTS = st.lists(st.tuples(st.sampled_from(["cumulative", "delta"]), st.booleans(), COUNTS), max_size=8)
REGISTERED = SourceConfig("Text messages", True, "cumulative", {}, False, 1)


def a_tally(reports: list[SourceReported]) -> SourceTally:
    tally = SourceTally()
    for offset, report in enumerate(reports):
        tally.take(report, offset, offset)
    return tally


def latest_of(reports: list[SourceReported]) -> dict[str, VoteSums]:
    """The source's latest report of each id, permitted or not."""
    latest: dict[str, VoteSums] = {}
    for report in reports:
        for mapped, *numbers in report.counts:
            before = latest.get(mapped, VoteSums()) if report.mode == "delta" else VoteSums()
            latest[mapped] = before + VoteSums(*numbers)
    return latest


def accounted(counts: ExternalCounts) -> VoteSums:
    """Counted, and what is held less what counts instead."""
    total = VoteSums()
    for figures in counts.counted.values():
        total += figures
    for held in counts.held:
        total += held.reported
        total += VoteSums(
            *(-number for number in (held.counted.count, held.counted.unique, held.counted.anonymous))
        )
    return total


@given(REPORTS, st.dictionaries(IDS, PARTICIPANTS), st.sets(PARTICIPANTS))
def test_latest_reported_is_counted_plus_held(
    given_reports: list[tuple[str, bool, tuple[tuple[str, int, int, int], ...]]],
    mapping: dict[str, str],
    participants: set[str],
) -> None:
    reports = [
        a_report(str(number), *counts, mode=mode, allow_decrease=allowed)
        for number, (mode, allowed, counts) in enumerate(given_reports)
    ]
    found = split(replace(REGISTERED, mapping=mapping), a_tally(reports), participants)
    assert accounted(found) == sum(latest_of(reports).values(), VoteSums())
    assert {(mapping[mapped], mapped) for _, mapped in found.counted} == set(found.counted)
    assert {key for key, _ in found.counted} <= participants


def test_an_id_is_held_until_it_is_mapped_and_moves_with_its_mapping() -> None:
    tally = a_tally([a_report("first", ("1", 5, 4, 3), ("2", 7, 0, 0))])
    before = split(replace(REGISTERED, mapping={"1": "a"}), tally, "ab")
    assert before.counted == {("a", "1"): VoteSums(5, 4, 3)}
    assert before.held == (Held("2", "unmapped", VoteSums(7), VoteSums()),)
    after = split(replace(REGISTERED, mapping={"1": "b", "2": "b", "3": "a"}), tally, "ab")
    assert after.counted == {("b", "1"): VoteSums(5, 4, 3), ("b", "2"): VoteSums(7), ("a", "3"): VoteSums()}
    assert after.held == ()


def test_an_id_that_is_mapped_to_a_participant_who_is_gone_is_held() -> None:
    counts = split(replace(REGISTERED, mapping={"1": "a"}), a_tally([a_report("first", ("1", 5, 0, 0))]), "b")
    assert (counts.counted, counts.held) == ({}, (Held("1", "unmapped", VoteSums(5), VoteSums()),))


def test_what_went_down_is_held_while_the_former_figure_counts() -> None:
    tally = a_tally([a_report("first", ("1", 5, 0, 0)), a_report("second", ("1", 3, 0, 0))])
    counts = split(replace(REGISTERED, mapping={"1": "a"}), tally, "a")
    assert counts.counted == {("a", "1"): VoteSums(5)}
    assert counts.held == (Held("1", "decrease", VoteSums(3), VoteSums(5)),)
    tally.take(a_report("release", allow_decrease=True), 2, 2)
    counts = split(replace(REGISTERED, mapping={"1": "a"}), tally, "a")
    assert (counts.counted, counts.held) == ({("a", "1"): VoteSums(3)}, ())


def test_readers_show_sources_in_use_and_retired_ones_that_reported() -> None:
    retired = replace(REGISTERED, retired=True)
    reported = {"sms": a_tally([a_report("first", ("1", 5, 0, 0))]), "radio": SourceTally(closed=1)}
    shown = external_counts({"tv": REGISTERED, "sms": retired, "radio": retired}, reported, "a")
    assert list(shown) == ["sms", "tv"]
