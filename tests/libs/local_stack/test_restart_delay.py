"""The delay after which a process that ended is started again."""

from itertools import accumulate

import pytest

from libs.local_stack.child_process import FIRST_DELAY_S, LONGEST_DELAY_S, STABLE_S, restart_delay_s

pytestmark = pytest.mark.pure


def test_only_a_process_that_ends_within_seconds_of_its_start_waits_and_longer_each_time() -> None:
    crashes = list(
        accumulate([STABLE_S / 2] * 8, lambda last_s, ran_s: restart_delay_s(ran_s, last_s), initial=0.0)
    )
    assert crashes[:4] == [0.0, FIRST_DELAY_S, 2 * FIRST_DELAY_S, 4 * FIRST_DELAY_S]
    assert crashes[-1] == LONGEST_DELAY_S
    assert restart_delay_s(STABLE_S, LONGEST_DELAY_S) == 0.0
