"""Projection interface: the fold of one topic into views by partition, and records that cannot be folded."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Self, TypeVar

from libs.contracts.codec import Undecodable, UnknownEvent
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Log
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.views.generations.fresh_reader import FreshReader
from libs.views.generations.generations import Witness
from libs.views.valkey.partition_reads import Group, Mark

E = TypeVar("E")

logger = logging.getLogger(__name__)


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


def log_quarantined(topic: Log, partition: int, offset: int, reason: str) -> None:
    """Log a record that a projection quarantines; after a retry the line repeats."""
    logger.error("quarantined topic=%s partition=%d offset=%d reason=%s", topic.name, partition, offset, reason)


def log_undecodable(topic: Log, partition: int, entries: Iterable[tuple[LogRecord, object]]) -> None:
    for record, event in entries:
        if isinstance(event, Undecodable):
            log_quarantined(topic, partition, record.offset, event.reason)


class LiveViews(Protocol):
    """Reads the positions of many live views by one call for each server (`libs.views.valkey.watched_reads`)."""

    def groups(self, partitions: Iterable[int]) -> list[Group]: ...
    async def marks(self, group: Group) -> Mapping[int, Mark | ViewsUnavailable]:
        """Return the marks that may have changed since the last call, or their errors."""


class Projection(Protocol):
    """Folds a log; live projectors, which fold one topic each, and replays drive the same object.

    `position` and `fold` raise the Valkey client's errors if the server is unavailable; the caller retries until
    they succeed. `fold` quarantines records that cannot be decoded or folded, in the same atomic step. It raises
    `NewerEvent` at an event of a newer version, after all before that are folded.
    """

    @property
    def topic(self) -> Log: ...

    @property
    def fresh(self) -> FreshReader | None:
        """Freshness of the views for readers; None if the views have a gate of their own."""

    @property
    def live(self) -> LiveViews:
        """The live views of all partitions."""

    async def position(self, partition: int) -> Position | None:
        """Return the position of the partition's view; None before the first fold."""

    async def witness(self, partition: int) -> Witness | None:
        """Return a record by which the log of the partition's view is recognised; None before the first fold."""

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        """Let the partition's view begin again if it is at `stored`; return whether it was.

        The log lost its records from offset `first_lost` on. The former view stays, to name them.
        """

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        """Fold `records` (ascending offsets, from `start`) and store the position after the last one.

        Return whether these leave work to `clean_up`.

        Atomic against the stored position: folds all if it equals `start`, does nothing if it is at or past the
        end, otherwise raises `Behind` with the stored one, to which the caller seeks. Large batches may be split;
        then `Behind` or an outage can follow a first part that was folded, as the position shows.
        """

    async def clean_up(self, partition: int) -> bool:
        """Do a part of the work that folded records left, in some 50 ms; return whether more is left."""
