"""A projector gathers records by their rate, of many partitions for longer, and fetches of them less often."""

import pytest

from libs.projection.consumer import Gathering
from libs.projection.settings import VOTES, Pace

POLL_MS = 4
"""Time between two polls without a wait."""


class Load:
    """Polls of records that come evenly, spread over the partitions."""

    def __init__(self, per_s: int, partitions: int, pace: Pace = VOTES) -> None:
        self._per_s, self._partitions = per_s, partitions
        self._now_s = 0.0
        self._gathering = Gathering(pace, lambda: self._now_s)

    def waits_ms(self, polls: int = 100) -> list[float]:
        waits, polled = [0.0], 0
        for _ in range(polls):
            self._now_s += max(waits[-1], POLL_MS) / 1000
            records = int(self._now_s * self._per_s) - polled
            polled += records
            if records:
                waits.append(self._gathering.wait_ms(records, min(records, self._partitions)))
        return waits


@pytest.mark.parametrize(
    ("per_s", "partitions", "wait_ms"),
    [
        pytest.param(100, 256, 0.0, id="quiet"),
        pytest.param(600, 16, 50.0, id="one client"),
        pytest.param(3_000, 16, 50.0, id="few partitions"),
        pytest.param(20_000, 64, 50.0, id="many records of each"),
        pytest.param(3_000, 256, 200.0, id="few records of each"),
        pytest.param(5_000, 64, 100.0, id="until each has eight"),
    ],
)
def test_records_are_gathered_by_their_rate_and_those_of_many_partitions_for_longer(
    per_s: int, partitions: int, wait_ms: float
) -> None:
    waits = Load(per_s, partitions).waits_ms()
    assert waits[-20:] == [pytest.approx(wait_ms, rel=0.06)] * 20


def test_a_load_that_ends_is_gathered_no_longer() -> None:
    now_s = 0.0
    gathering = Gathering(VOTES, lambda: now_s)
    assert gathering.wait_ms(100, 16) == VOTES.gather_ms
    now_s = 1.0
    assert gathering.wait_ms(1, 1) == 0.0
