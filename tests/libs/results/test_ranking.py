"""Ranks of participants, by votes and by averages."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from libs.results.contest_results import entry_rank_key, places, rank_key, rating
from libs.tally.contest import MILLION
from libs.tally.counts import RatingSums

SUMS = st.builds(RatingSums, st.integers(0, 5), st.integers(0, 50 * MILLION)).map(
    lambda sums: sums if sums.count else RatingSums()
)


def test_the_best_average_is_first_however_many_rated_it() -> None:
    few, many, none = RatingSums(2, 18 * MILLION), RatingSums(900, 4_500 * MILLION), RatingSums()
    keys = {name: rank_key(sums.count, sums) for name, sums in {"many": many, "none": none, "few": few}.items()}
    assert places(keys) == {"many": 2, "none": 3, "few": 1}


def test_of_equal_averages_that_of_more_ratings_is_first_and_equal_numbers_share() -> None:
    counts = {"a": 3, "b": 5, "c": 3, "d": 2}
    keys = {name: rank_key(count, RatingSums(count, count * 8 * MILLION)) for name, count in counts.items()}
    assert places(keys) == {"a": 2, "b": 1, "c": 2, "d": 4}


def test_an_average_of_zero_is_before_no_rating() -> None:
    assert rank_key(1, RatingSums(1, 0)) > rank_key(0, RatingSums())


@given(st.integers(0, 9), st.integers(0, 9))
def test_votes_alone_decide_in_other_contests(one: int, other: int) -> None:
    assert (rank_key(one, None) > rank_key(other, None)) == (one > other)


@given(SUMS)
def test_a_record_ranks_as_the_sums_that_it_shows(sums: RatingSums) -> None:
    entry = {"count": sums.count, "rating": rating((), sums)}
    assert entry_rank_key(entry) == rank_key(sums.count, sums)


@given(SUMS, SUMS)
def test_averages_are_compared_as_they_are_shown(one: RatingSums, other: RatingSums) -> None:
    if one.count and other.count:
        means = [Fraction(sums.total, sums.count) for sums in (one, other)]
        shown = [rank_key(0, sums).average for sums in (one, other)]
        assert shown[0] == shown[1] or (means[0] > means[1]) == (shown[0] > shown[1])
