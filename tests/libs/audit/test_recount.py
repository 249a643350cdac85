"""The preview of a voiding: immediate, or deferred until a reopening."""

import pytest

from libs.audit.recount import is_being_closed
from libs.tally.fold import ContestTally
from tests.support.builders import NOW, a_contest


@pytest.mark.parametrize(
    ("end", "closed", "marks", "being_closed"),
    [
        (None, 0, [0, 0], False),
        (NOW + 1, 0, [0, 0], False),
        (NOW, 0, [0, 0], True),
        (NOW, 2, [0, 2], True),
        (NOW, 2, [2, 2], False),
    ],
)
def test_between_its_end_and_its_last_mark_a_contest_is_being_closed(
    end: int | None, closed: int, marks: list[int], being_closed: bool
) -> None:
    tallies = [ContestTally(closed=mark) for mark in marks]
    assert is_being_closed(a_contest(end=end, closed=closed), tallies, NOW) is being_closed
