"""`tally count`: the rows of past counts."""

from typing import Any

from libs.audit.recount import HistoricalCount
from services.cli.commands.contests import _rows


def test_an_average_of_zero_is_not_that_of_nobody() -> None:
    entry: dict[str, Any] = {"unique_voter_count": 1, "anonymous_voter_count": 0}
    participants = {
        "a": entry | {"count": 1, "rating": {"average": 0.0}},
        "b": entry | {"count": 0, "rating": {"average": None}},
    }
    record = {"count": 1, "participants": participants}
    rows = _rows(HistoricalCount(record, "", {}, {}, None, None))
    assert {row["participant"]: row["average"] for row in rows} == {"a": "0.0", "b": "-"}
