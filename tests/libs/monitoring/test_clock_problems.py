"""Differing clocks are a problem that names the clock and the difference."""

from dataclasses import replace

import pytest

from libs.contracts.log_records import Position
from libs.monitoring.collector import ledger_of
from libs.monitoring.health_problems import problems_of
from libs.monitoring.status import Status
from libs.views.generations.generations import ProjectionName
from libs.views.votes.reply_types import PartitionState
from tests.libs.monitoring.partition_rows import a_partition

NOW_S = 1_790_000_000
SECOND = 1_000_000
STATE = PartitionState(Position("log", 1), True, 1, NOW_S * SECOND, 1, 0, None, 0, 0, 0, 0, NOW_S * SECOND)
ROW = a_partition(ProjectionName.VOTES)


def problems(asked: float = 0, answered: float = 0, ahead_s: int = 0) -> list[str]:
    """With this process's clock around the call, as seconds after Valkey's."""
    state = replace(STATE, clock=STATE.now + ahead_s * SECOND)
    ledger = ledger_of(state, NOW_S + asked, NOW_S + answered)
    status = Status(NOW_S * 1000, [replace(ROW, **ledger)], (), ())
    return [problem.detail for problem in problems_of(status) if problem.kind == "clock"]


@pytest.mark.parametrize(
    ("asked", "answered", "ahead_s", "said"),
    [
        (-3600, -3600, 0, "Valkey's clock is 3,600 s ahead of this machine's"),
        (3600, 3600, 0, "Valkey's clock is 3,600 s behind this machine's"),
        (0, 0, 90, "votes are stamped 90 s ahead of Valkey's clock, which stepped back"),
        (
            90,
            90,
            90,
            "Valkey's clock is 90 s behind this machine's, "
            "votes are stamped 90 s ahead of Valkey's clock, which stepped back",
        ),
    ],
)
def test_a_clock_that_is_off_is_a_problem(asked: float, answered: float, ahead_s: int, said: str) -> None:
    assert problems(asked, answered, ahead_s) == [said]


def test_clocks_that_agree_are_none() -> None:
    """A call that took a minute proves nothing about a clock in between."""
    assert problems() == problems(-30, 30) == problems(ahead_s=1) == []
