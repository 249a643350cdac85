"""What a projection is: the fold of one topic into views, partition by partition."""

from collections.abc import Sequence
from typing import Protocol

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Topic
from libs.views.freshness import Freshness


class FreshViews(Protocol):
    """How views are made fresh (`libs.views.freshness`)."""

    async def freshness(self, partition: int) -> Freshness: ...
    async def declare(self, partition: int, run: str, end: Position) -> bool: ...


class Projection(Protocol):
    """Live folding and replay drive the same object.

    Both methods raise what the Valkey client raises when the server is away; the caller tries again for as long
    as it takes. What cannot be decoded or folded is quarantined inside `fold`, in the same atomic step.
    """

    topic: Topic

    @property
    def fresh(self) -> FreshViews | None:
        """Where readers need to know that the views are fresh; None where a gate of their own says so."""

    async def position(self, partition: int) -> Position | None:
        """How far the view of `partition` has come; None when nothing was folded yet."""

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        """Fold `records` (ascending offsets, from `start` on) and store the position behind the last one.

        Atomic against the stored position: folded wholly when it equals `start`, silently done when it is at or
        past the end, otherwise raises `Behind` with the stored one, to which the caller seeks. Large batches may
        be cut; then `Behind` or an outage can come after a first part was folded, which the position shows.
        """
