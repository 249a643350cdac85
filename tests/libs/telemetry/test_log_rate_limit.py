"""Repeated log lines: the first is logged, then one per interval; suppressed lines are counted."""

import logging

import pytest

from libs.telemetry.log_rate_limit import MOST_KINDS, WINDOW_S, RateLimit
from libs.telemetry.logs import TextLine
from tests.libs.telemetry.logging_process import logged


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(name: str, message: str, *args: object, level: int = logging.WARNING, at: int = 1) -> logging.LogRecord:
    return logging.LogRecord(name, level, "file.py", at, message, args, None)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def limit(clock: Clock) -> RateLimit:
    return RateLimit(clock)


def test_of_a_librarys_repeated_line_one_passes_in_a_while_and_says_how_many_did_not(
    limit: RateLimit, clock: Clock
) -> None:
    passed = []
    for number in range(10_000):
        clock.now = number * WINDOW_S / 1_000
        record = line("aiokafka.consumer", "Failed fetch from %s: %s", number, "gone")
        if limit.filter(record):
            passed.append(record)
    assert len(passed) == 10
    assert not hasattr(passed[0], "left_out")
    assert [record.__dict__["left_out"] for record in passed[1:]] == [999] * 9
    assert TextLine().format(passed[1]).endswith("gone (999 more like it were left out)")


def test_other_statements_levels_and_errors_are_of_other_kinds(limit: RateLimit) -> None:
    first = line("redis.client", "away")
    others = [
        line("redis.client", "away", at=2),
        line("redis.client", "away", level=logging.ERROR),
        line("redis.pool", "away"),
    ]
    failed = line("redis.client", "away")
    failed.exc_info = (OSError, OSError(), None)
    assert all(limit.filter(record) for record in (first, *others, failed))


def test_of_our_own_lines_only_the_very_same_are_left_out(limit: RateLimit) -> None:
    said = [line("libs.projection.fencing", "partition %d waits", partition) for partition in (1, 2, 1, 2, 3)]
    assert [limit.filter(record) for record in said] == [True, True, False, False, True]


def test_what_is_critical_or_below_a_warning_always_passes(limit: RateLimit) -> None:
    for level in (logging.DEBUG, logging.INFO, logging.CRITICAL):
        assert all(limit.filter(line("aiokafka", "said", level=level)) for _ in range(5))


def test_kinds_that_are_over_take_no_room(limit: RateLimit, clock: Clock) -> None:
    for number in range(3 * MOST_KINDS):
        clock.now += WINDOW_S / MOST_KINDS
        limit.filter(line("libs.media", "picture %d", number))
    assert len(limit._kinds) <= MOST_KINDS


PROGRAM = """
for node in range(1000):
    logging.getLogger("aiokafka.client").error("Unable to connect to node %d", node)
"""


def test_every_process_limits_its_log() -> None:
    lines, _ = logged(PROGRAM)
    assert [line["message"] for line in lines] == ["Unable to connect to node 0"]
