"""The phase of a contest at an instant."""

import pytest

from libs.tally.contest import Phase
from tests.support.builders import a_contest


@pytest.mark.parametrize(
    ("publish", "start", "end", "phase"),
    [
        (None, 10, 200, Phase.SETUP),
        (101, 10, 200, Phase.SETUP),
        (101, None, None, Phase.SETUP),
        (100, None, None, Phase.ANNOUNCED),
        (1, None, 50, Phase.ANNOUNCED),
        (1, 101, 200, Phase.ANNOUNCED),
        (100, 100, None, Phase.RUNNING),
        (1, 10, 101, Phase.RUNNING),
        (1, 10, 100, Phase.FINISHED),
        (1, 10, 99, Phase.FINISHED),
        (1, 10, 5, Phase.FINISHED),
    ],
)
def test_the_phase_at_100(publish: int | None, start: int | None, end: int | None, phase: Phase) -> None:
    assert a_contest(publish=publish, start=start, end=end).phase(100) is phase


@pytest.mark.parametrize("publish", [None, 5, 20])
@pytest.mark.parametrize("start", [None, 5, 20])
@pytest.mark.parametrize("end", [None, 3, 10, 25])
def test_the_span_that_the_ledger_gets_is_the_running_phase(
    publish: int | None, start: int | None, end: int | None
) -> None:
    contest = a_contest(publish=publish, start=start, end=end)
    span = contest.runs()
    for now in range(1, 30):
        inside = span is not None and span[0] <= now and (span[1] == -1 or now < span[1])
        assert inside == (contest.phase(now) is Phase.RUNNING)
