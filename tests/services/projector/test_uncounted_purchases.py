"""The pause between two comparisons of paid votes with their participants."""

import pytest

from services.projector.uncounted_purchases import LONGEST_REST_S, rest_s

pytestmark = pytest.mark.pure


def test_a_pass_is_a_small_share_of_the_time_and_a_frozen_one_delays_the_next_by_seconds_only() -> None:
    assert rest_s(0.5) == 5.0
    assert rest_s(7.0) == rest_s(3600.0) == LONGEST_REST_S
