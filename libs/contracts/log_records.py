"""Records of the log, and the actor that events of the current request, command or process name."""

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, NamedTuple, Protocol

from libs.tally.events import Actor


class Position(NamedTuple):
    """Position of the fold in one partition.

    `log_id` is the random id in the partition's first record (LogCreated); it detects a recreated log. `offset` is
    the next offset to fold.
    """

    log_id: str
    offset: int


class LogRecord(NamedTuple):
    """One record of the log. `timestamp_ms` is the broker's append time."""

    offset: int
    timestamp_ms: int
    value: bytes
    key: bytes | None = None


OF_CONTEST: Final = b'"contest"'
ESCAPE: Final = b"\\"


def about(records: Sequence[LogRecord], contest: str) -> list[LogRecord]:
    """Return the records of the votes that can concern a contest, without decoding the others.

    These have its key, or no contest, as fences do. JSON can also spell a key by escapes.
    """
    key = contest.encode()
    return [
        record
        for record in records
        if key in record.value or OF_CONTEST not in record.value or ESCAPE in record.value
    ]


class Appended(NamedTuple):
    """Position of an appended record, acknowledged by all in-sync replicas.

    `exact` is False if the broker may have detected a duplicate: the record is in the log, but maybe at another
    offset.
    """

    partition: int
    offset: int
    exact: bool


class Appender(Protocol):
    """Interface of the log's writer."""

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended:
        """Append a record. Raises `AppendUnknown` if it may be in the log, `NotAppended` if it is not."""


class Behind(Exception):
    """The view's position, `stored`, differs from the expected one (None: nothing folded yet)."""

    def __init__(self, stored: Position | None) -> None:
        super().__init__(f"view is at position {stored}")
        self.stored = stored


CURRENT: Final[ContextVar[Actor | None]] = ContextVar("actor", default=None)
"""Set at the entry of each request or command; a new task inherits it."""
