"""External sources: a report counts once, by the source's own ids, and decreases are held."""

from hypothesis import given as for_all
from hypothesis import strategies as st

from libs.tally.counts import VoteSums
from libs.tally.events import SourceReported
from tests.libs.tally.given_events import given, source
from tests.support.builders import a_report


def test_a_cumulative_report_replaces_what_its_ids_had() -> None:
    tally = given(a_report("1", ("x", 5, 4, 1), ("y", 2, 2, 0)), a_report("2", ("x", 7, 5, 2)))
    assert source(tally).figures == {"x": VoteSums(7, 5, 2), "y": VoteSums(2, 2, 0)}
    assert source(tally).updated_ms == 1_001


def test_a_delta_is_added() -> None:
    tally = given(*(a_report(str(n), ("x", 5, 4, 1), mode="delta") for n in range(3)))
    assert source(tally).figures == {"x": VoteSums(15, 12, 3)}


def test_a_report_id_counts_once_within_its_source_and_contest() -> None:
    again = a_report("1", ("x", 5, 4, 1), mode="delta")
    tally = given(again, again, a_report("1", ("x", 1, 1, 0), source="tv"), a_report("1", contest="second"))
    assert source(tally).figures == {"x": VoteSums(5, 4, 1)}
    assert source(tally, "tv").figures == {"x": VoteSums(1, 1, 0)}
    assert tally.duplicates == 1
    assert source(tally).reports["1"].offset == 0


def test_what_went_down_is_held_and_what_did_not_is_taken_over() -> None:
    tally = given(a_report("1", ("x", 5, 4, 1), ("y", 5, 4, 1)), a_report("2", ("x", 3, 3, 0), ("y", 6, 5, 1)))
    assert source(tally).figures == {"x": VoteSums(5, 4, 1), "y": VoteSums(6, 5, 1)}
    assert source(tally).held == {"x": VoteSums(3, 3, 0)}
    assert source(tally).reports["2"].held == ("x",)


def test_the_count_alone_says_whether_it_went_down() -> None:
    tally = given(a_report("1", ("x", 5, 4, 1)), a_report("2", ("x", 5, 2, 0)))
    assert source(tally).figures == {"x": VoteSums(5, 2, 0)}


def test_a_higher_report_ends_the_holding() -> None:
    tally = given(a_report("1", ("x", 5, 4, 1)), a_report("2", ("x", 3, 3, 0)), a_report("3", ("x", 6, 5, 1)))
    assert source(tally).figures == {"x": VoteSums(6, 5, 1)}
    assert source(tally).held == {}


def test_a_permitted_decrease_is_taken_over() -> None:
    tally = given(a_report("1", ("x", 5, 4, 1)), a_report("2", ("x", 3, 3, 0), allow_decrease=True))
    assert source(tally).figures == {"x": VoteSums(3, 3, 0)}
    assert source(tally).reports["2"].held == ()


def test_a_permission_releases_all_that_is_held() -> None:
    tally = given(
        a_report("1", ("x", 5, 4, 1), ("y", 5, 4, 1)),
        a_report("2", ("x", 3, 3, 0), ("y", 2, 2, 0)),
        a_report("3", ("y", 1, 1, 0), allow_decrease=True),
    )
    assert source(tally).figures == {"x": VoteSums(3, 3, 0), "y": VoteSums(1, 1, 0)}
    assert source(tally).held == {}


def test_a_delta_is_added_to_what_is_held_too() -> None:
    tally = given(
        a_report("1", ("x", 9, 4, 1)),
        a_report("2", ("x", 3, 2, 0)),
        a_report("3", ("x", 2, 1, 1), mode="delta"),
    )
    assert source(tally).figures == {"x": VoteSums(11, 5, 2)}
    assert source(tally).held == {"x": VoteSums(5, 3, 1)}


reports = st.lists(
    st.builds(
        lambda name, counts, allow, mode: a_report(name, *counts, allow_decrease=allow, mode=mode),
        st.integers(0, 9).map(str),
        st.dictionaries(st.sampled_from("xyz"), st.integers(0, 5), max_size=3).map(
            lambda counts: [(mapped, count, count, 0) for mapped, count in counts.items()]
        ),
        st.booleans(),
        st.sampled_from(["cumulative", "cumulative", "delta"]),
    ),
    max_size=12,
)


@for_all(reports)
def test_the_latest_that_was_reported_of_an_id_is_counted_or_held(log: list[SourceReported]) -> None:
    latest: dict[str, int] = {}
    seen: set[str] = set()
    for report in log:
        if report.report_id not in seen:
            seen.add(report.report_id)
            for mapped, count, *_ in report.counts:
                latest[mapped] = count + (latest.get(mapped, 0) if report.mode == "delta" else 0)
    tally = given(*log)
    if log:
        kept = source(tally)
        assert {name: its.count for name, its in (kept.figures | kept.held).items()} == latest
        assert all(kept.figures[name].count > held.count for name, held in kept.held.items())
