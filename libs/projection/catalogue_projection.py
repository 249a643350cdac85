"""Projection of the catalogue log: records, keys, and the outcome of every command."""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from typing import Protocol

from libs.contracts.catalogue_events import (
    CatalogueEvent,
    RecordDeleted,
    catalogue_codec,
    contests_of,
    created_contests_of,
)
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.topics import Topic
from libs.projection.newer_event_version import until_newer
from libs.projection.projection_interface import FreshViews
from libs.projection.quarantine_log import log_undecodable
from libs.views.catalogue_views import DueRaises
from libs.views.partition_reads import PartitionReads
from libs.views.watched_reads import WatchedMarks

Entry = tuple[LogRecord, CatalogueEvent | Undecodable]
RaiseConfig = Callable[[Mapping[str, int]], Awaitable[Collection[int]]]
"""Makes every votes partition refuse decisions based on an older configuration than this offset, by contest.

Returns the partitions that may lack it: they did not respond."""

SLICE_EVENTS = 32
SLICE_BYTES = 256 * 1024
"""Limits of one call: it takes about 2 ms. A DELETE ends a slice: the record's children are deleted in parts."""


class CatalogueViewWriter(Protocol):
    """Stores the catalogue's views."""

    @property
    def fresh(self) -> FreshViews: ...
    @property
    def live(self) -> PartitionReads: ...

    async def position(self, partition: int) -> Position | None: ...
    async def apply(
        self, partition: int, start: Position, entries: Sequence[Entry], end: int, due: Collection[DueRaises]
    ) -> None: ...


async def no_votes(versions: Mapping[str, int]) -> Collection[int]:  # noqa: ARG001
    """Ignore changed contests, in an environment without votes."""
    return ()


class CatalogueProjection:
    """Folds `topic` into `views`, after raising the configuration versions of the contests that change."""

    def __init__(self, topic: Topic, views: CatalogueViewWriter, raise_config: RaiseConfig) -> None:
        self.topic = topic
        self.fresh = views.fresh
        self.live = WatchedMarks(views.live)
        self._views = views
        self._raise_config = raise_config

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> None:
        """Fold records as `Projection.fold`.

        A contest's new configuration version takes effect in the votes views before the change can be read here.
        After a crash in between, workers get "stale" until the event is folded. Where a votes partition does not
        respond, the change is folded nevertheless, with the raise that is due there, and has no outcome until
        that is done. So workers never decide by the old rules after a writer was answered.
        """
        events = catalogue_codec.decode_many([record.value for record in records])
        known, newer = until_newer(self.topic, partition, list(zip(records, events, strict=True)))
        log_undecodable(self.topic, partition, known)
        for entries in _sliced(known):
            events_by_offset = {
                record.offset: event for record, event in entries if not isinstance(event, Undecodable)
            }
            versions = {name: offset for offset, event in events_by_offset.items() for name in contests_of(event)}
            lacking = tuple(await self._raise_config(versions)) if versions else ()
            changed = {
                offset: sorted(contests_of(event) - created_contests_of(event))
                for offset, event in events_by_offset.items()
                if lacking
            }
            due = [DueRaises(offset, contests, lacking) for offset, contests in changed.items() if contests]
            end = entries[-1][0].offset + 1
            await self._views.apply(partition, start, entries, end, due)
            start = Position(start.log_id, end)
        if newer is not None:
            raise newer


def _sliced(entries: Sequence[Entry]) -> Iterator[Sequence[Entry]]:
    cut: list[Entry] = []
    size = 0
    for entry in entries:
        size += len(entry[0].value)
        if cut and (len(cut) >= SLICE_EVENTS or size > SLICE_BYTES or isinstance(cut[-1][1], RecordDeleted)):
            yield cut
            cut, size = [], len(entry[0].value)
        cut.append(entry)
    if cut:
        yield cut
