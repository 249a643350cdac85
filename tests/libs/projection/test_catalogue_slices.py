"""The catalogue's log is folded in slices: short calls, and nothing waits for a restoration's parts."""

from typing import Any

from libs.contracts.catalogue_events import ContestRestored, RecordCreated, RecordDeleted
from libs.contracts.log_records import LogRecord
from libs.projection.record_projections import SLICE_BYTES, SLICE_EVENTS, catalogue_slices


def sizes(*kinds: type[Any], size: int = 1) -> list[int]:
    """Return the numbers of events of the slices of a log with events of these kinds and sizes."""
    who: dict[str, Any] = {"account": "account", "at": 0, "command_id": "command"}
    of: dict[type[Any], dict[str, Any]] = {
        RecordCreated: {"resource": "images", "key": "image", "record": "{}"},
        RecordDeleted: {"resource": "images", "key": "image"},
        ContestRestored: {"contest": "contest", "due": None},
    }
    entries = [(LogRecord(at, 0, b"x" * size), kind(**who, **of[kind])) for at, kind in enumerate(kinds)]
    return [len(piece) for piece in catalogue_slices(entries)]


def test_a_slice_has_a_bound_of_events_and_of_bytes() -> None:
    assert sizes(*[RecordCreated] * (SLICE_EVENTS + 1)) == [SLICE_EVENTS, 1]
    assert sizes(*[RecordCreated] * 3, size=SLICE_BYTES // 2) == [2, 1]
    assert sizes(RecordCreated, RecordCreated, size=2 * SLICE_BYTES) == [1, 1]


def test_the_restoration_of_a_contest_ends_a_slice() -> None:
    """Later events' contests would have versions in force that nobody can read until its parts are settled."""
    assert sizes(RecordCreated, RecordDeleted, RecordCreated, ContestRestored, RecordCreated) == [4, 1]
