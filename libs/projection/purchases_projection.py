"""Projection of the purchases log: purchases, their outcomes, and the open ones."""

from collections.abc import Sequence

from libs.contracts.log_records import LogRecord, Position
from libs.contracts.purchase_events import purchases_codec
from libs.contracts.topics import Topic
from libs.projection.newer_event_version import until_newer
from libs.projection.quarantine_log import log_undecodable
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.valkey.watched_reads import WatchedMarks

SLICE = 100
"""Records per call: about 2 ms."""


class PurchasesProjection:
    """Implements `Projection`."""

    def __init__(self, topic: Topic, views: PurchaseViews) -> None:
        self.topic = topic
        self.fresh = views.fresh
        self.live = WatchedMarks(views.live)
        self._views = views

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        events = purchases_codec.decode_many([record.value for record in records])
        known, newer = until_newer(self.topic, partition, list(zip(records, events, strict=True)))
        for at in range(0, len(known), SLICE):
            entries = known[at : at + SLICE]
            end = entries[-1][0].offset + 1
            log_undecodable(self.topic, partition, entries)
            await self._views.apply(partition, start, entries, end)
            start = Position(start.log_id, end)
        if newer is not None:
            raise newer
