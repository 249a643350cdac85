"""Projection interface: the fold of one topic into views, partition by partition."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Log
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.fresh_reader import Freshness
from libs.views.valkey.partition_reads import Group, Mark


class FreshViews(Protocol):
    """Reads and declares the freshness of views (`libs.views.generations.fresh_reader`)."""

    def groups(self, partitions: Iterable[int]) -> list[Group]: ...
    async def stale(self, group: Group) -> list[int]: ...
    async def freshness(self, partition: int) -> Freshness: ...
    async def declare(self, partition: int, run: str, end: Position) -> bool: ...


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
    def fresh(self) -> FreshViews | None:
        """Freshness of the views for readers; None if the views have a gate of their own."""

    @property
    def live(self) -> LiveViews:
        """The live views of all partitions."""

    async def position(self, partition: int) -> Position | None:
        """Return the position of the partition's view; None before the first fold."""

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        """Fold `records` (ascending offsets, from `start`) and store the position after the last one.

        Atomic against the stored position: folds all if it equals `start`, does nothing if it is at or past the
        end, otherwise raises `Behind` with the stored one, to which the caller seeks. Large batches may be split;
        then `Behind` or an outage can follow a first part that was folded, as the position shows.
        """
