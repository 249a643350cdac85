"""What a record in the log is, and where it stands: shared by everything that writes, reads or folds it."""

from dataclasses import dataclass
from typing import NamedTuple


class Position(NamedTuple):
    """How far one partition has been folded.

    `log_id` is the random id in the partition's first record (LogCreated), so a recreated log is noticed, not
    skipped. `offset` is the next offset to fold: all smaller ones are in.
    """

    log_id: str
    offset: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """One record as it lies in the log. `timestamp_ms` is the broker's append time."""

    offset: int
    timestamp_ms: int
    value: bytes
    key: bytes | None = None


class Appended(NamedTuple):
    """Where a record landed, acknowledged by all in-sync replicas.

    `exact` is False when the broker may have recognised a duplicate: it is in the log, but perhaps not at this
    offset.
    """

    partition: int
    offset: int
    exact: bool


class Behind(Exception):
    """A view is not where the caller believed: it stands at `stored` (None: nothing folded yet)."""

    def __init__(self, stored: Position | None) -> None:
        super().__init__(f"view stands at {stored}")
        self.stored = stored
