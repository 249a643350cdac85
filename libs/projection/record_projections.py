"""Projections of the catalogue's and the purchases' logs."""

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from libs.contracts.catalogue_events import (
    CatalogueEvent,
    ContestRestored,
    catalogue_codec,
    contests_of,
)
from libs.contracts.codec import Codec, Undecodable
from libs.contracts.log_records import LogRecord, Position
from libs.contracts.purchase_events import PurchasesEvent, purchases_codec
from libs.contracts.topics import Topic
from libs.projection.projection_interface import log_undecodable, until_newer
from libs.tally.contest import UNLIMITED
from libs.views.generations.computed_fold import ComputedViews
from libs.views.generations.generations import Witness
from libs.views.valkey.watched_reads import WatchedMarks
from libs.views.votes.vote_views import VoteViews

E = TypeVar("E")
Entry = tuple[LogRecord, E | Undecodable]
Entries = Sequence[tuple[LogRecord, E | Undecodable]]
RaiseConfig = Callable[[Mapping[str, int]], Awaitable[None]]
"""Makes every votes partition refuse decisions based on an older configuration than this offset, by contest.

Raises `ViewsUnavailable` unless all of them do."""

SLICE_EVENTS = 32
SLICE_BYTES = 256 * 1024
"""Limits of a call of the catalogue: about 2 ms. The restoration of a contest ends a slice: its children follow in
parts, and contests of later events would have versions in force that nobody can read until then."""
PURCHASES_SLICE = 100
"""Purchases' records per call: about 2 ms."""


class RecordProjection(ABC, Generic[E]):
    """Implements `Projection`: folds `topic` into `views`, a slice of records by one call."""

    def __init__(self, topic: Topic, views: ComputedViews[E], codec: Codec[E]) -> None:
        self.topic = topic
        self.fresh = views.fresh
        self.live = WatchedMarks(views.live)
        self._views = views
        self._codec = codec

    async def position(self, partition: int) -> Position | None:
        return await self._views.position(partition)

    async def witness(self, partition: int) -> Witness | None:
        return await self._views.generations.witness(partition)

    async def begin_again(self, partition: int, stored: Position, first_lost: int) -> bool:
        return await self._views.generations.begin_again(partition, stored, first_lost)

    async def fold(self, partition: int, start: Position, records: Sequence[LogRecord]) -> bool:
        events = self._codec.decode_many([record.value for record in records])
        known, newer = until_newer(self.topic, partition, list(zip(records, events, strict=True)))
        is_work_left = False
        for entries in self.sliced(known):
            log_undecodable(self.topic, partition, entries)
            await self.before(entries)
            end = entries[-1][0].offset + 1
            is_work_left = await self._views.apply(partition, start, entries, end)
            start = Position(start.log_id, end)
        if newer is not None:
            raise newer
        return is_work_left

    async def clean_up(self, partition: int) -> bool:
        return await self._views.clean_up(partition)

    @abstractmethod
    def sliced(self, entries: Entries[E]) -> Iterable[Entries[E]]:
        """Divide records into those of one call each."""

    async def before(self, entries: Entries[E]) -> None:
        """Do what a slice needs before it is folded."""


class PurchasesProjection(RecordProjection[PurchasesEvent]):
    """Folds purchases."""

    def __init__(self, topic: Topic, views: ComputedViews[PurchasesEvent]) -> None:
        super().__init__(topic, views, purchases_codec)

    def sliced(self, entries: Entries[PurchasesEvent]) -> Iterator[Entries[PurchasesEvent]]:
        return (entries[at : at + PURCHASES_SLICE] for at in range(0, len(entries), PURCHASES_SLICE))


class CatalogueProjection(RecordProjection[CatalogueEvent]):
    """Folds the catalogue, after raising the configuration versions of the contests that change.

    A contest's new configuration version takes effect in all votes views before the change can be read here. After
    a crash in between, workers get "stale" until the event is folded. So what a reader of this view acts on (an
    answer to a writer, a close marker) is in force for every vote.

    While a votes partition is away, the fold waits: changes of this partition's accounts receive 503, reads go on,
    and the other partitions' votes, too, by the configuration before. A raise that is left for later would have to
    be taken into account by all who read the change, and each who forgets it breaks a promise.
    """

    def __init__(self, topic: Topic, views: ComputedViews[CatalogueEvent], raise_config: RaiseConfig) -> None:
        super().__init__(topic, views, catalogue_codec)
        self._raise_config = raise_config

    def sliced(self, entries: Entries[CatalogueEvent]) -> Iterator[Entries[CatalogueEvent]]:
        return catalogue_slices(entries)

    async def before(self, entries: Entries[CatalogueEvent]) -> None:
        if versions := versions_of(entries):
            await self._raise_config(versions)


def catalogue_slices(entries: Entries[CatalogueEvent]) -> Iterator[Entries[CatalogueEvent]]:
    """Divide the catalogue's records into those of one call each."""
    cut: list[Entry[CatalogueEvent]] = []
    size = 0
    for entry in entries:
        size += len(entry[0].value)
        if cut and (len(cut) >= SLICE_EVENTS or size > SLICE_BYTES):
            yield cut
            cut, size = [], len(entry[0].value)
        cut.append(entry)
        if isinstance(entry[1], ContestRestored):
            yield cut
            cut, size = [], 0
    if cut:
        yield cut


def versions_of(entries: Iterable[Entry[CatalogueEvent]]) -> dict[str, int]:
    """Return the configuration versions of the contests that change."""
    return {
        name: record.offset
        for record, event in entries
        if not isinstance(event, Undecodable)
        for name in contests_of(event)
    }


class ConfigVersions:
    """Raises configuration versions in every partition of the votes views, as a `RaiseConfig`."""

    def __init__(self, views: VoteViews, partitions: Callable[[], Awaitable[Iterable[int]]]) -> None:
        """`partitions()` returns those of all contests that the catalogue can have by now."""
        self._views = views
        self._partitions = partitions

    async def __call__(self, versions: Mapping[str, int]) -> None:
        """Raise versions by contest, repeatable and in any order, as none is ever lowered.

        First each server is asked for nothing: where only some have a version, its contest's votes wait there
        until the change can be read, which the others delay.
        """
        groups = defaultdict[int, list[int]](list)
        for partition in await self._partitions():
            groups[self._views.call_group(partition)].append(partition)
        for raised in (dict.fromkeys(versions, UNLIMITED), versions):
            replies = await asyncio.gather(
                *(self._views.raise_together(group, raised) for group in groups.values())
            )
            for error in (error for errors in replies for error in errors if error is not None):
                raise error


async def no_votes(versions: Mapping[str, int]) -> None:
    """Ignore changed contests, in an environment without votes."""
