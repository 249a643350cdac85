"""Sums of ratings, and their distribution."""

import pytest

from libs.tally.contest import MILLION
from libs.tally.counts import MOST_VALUE, RatingSums, one_value


@pytest.mark.parametrize(
    ("rating", "value"),
    [
        (0, 0),
        (499_999, 0),
        (500_000, 1),
        (MILLION, 1),
        (4_499_999, 4),
        (4_500_000, 5),
        (1_000 * MILLION, MOST_VALUE),
    ],
)
def test_a_rating_counts_at_the_whole_number_next_to_it(rating: int, value: int) -> None:
    assert one_value(rating) == (*[0] * value, 1)


def test_distributions_add_up_and_cancel_out() -> None:
    low, high = (
        RatingSums(1, MILLION, {}, one_value(MILLION)),
        RatingSums(1, 3 * MILLION, {}, one_value(3 * MILLION)),
    )
    assert (low + high + high).values == (0, 1, 0, 2)
    assert (low + high + -high).values == (0, 1, 0, 0)
