"""Stops a fold at an event that a newer version wrote."""

from collections.abc import Sequence
from typing import Self, TypeVar

from libs.contracts.codec import UnknownEvent
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log
from libs.tally.errors import TallyError

E = TypeVar("E")


class NewerEvent(TallyError):
    """The record at `offset` has a type that this version does not support; all before it are folded.

    It is not quarantined: a process of the version that wrote it folds it.
    """

    code = "log_unavailable"
    offset: int

    @classmethod
    def of(cls, topic: Log, partition: int, offset: int, event_type: str) -> Self:
        error = cls(
            f"{topic.name}/{partition} has an event of the unknown type {event_type} at offset {offset}: a newer "
            "version wrote it. Upgrade this process"
        )
        error.offset = offset
        return error


def until_newer(
    topic: Log, partition: int, entries: Sequence[tuple[LogRecord, E]]
) -> tuple[Sequence[tuple[LogRecord, E]], NewerEvent | None]:
    """Return the entries before the first event of a newer version, and that."""
    for at, (record, event) in enumerate(entries):
        if isinstance(event, UnknownEvent):
            return entries[:at], NewerEvent.of(topic, partition, record.offset, event.type)
    return entries, None
