"""Counts as they were at the end of a minute."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from libs.contracts.log_records import Position
from libs.tally.errors import ViewsUnavailable
from libs.views.freshness import RECOVERING
from libs.views.replies import ContestCounts, SourceCounts
from libs.views.timeline import MINUTE_MS
from services.query.counts import sum_of
from services.query.historical_read_limits import PARTITION_ROWS, PastReads
from services.query.snapshot import Snapshot

MOST_FIGURES: Final = 200_000
"""Kept in a process: some 300 bytes each."""
SETTLED: Final = -2
"""Stands for the offset of the last change where later ones say nothing."""


class PastViews(Protocol):
    """What is needed of the timelines."""

    async def counts_at(
        self,
        partition: int,
        contest: str,
        minute: int,
        participants: Iterable[str],
        sources: Mapping[str, SourceCounts],
    ) -> ContestCounts: ...


class Kept(NamedTuple):
    """What was, and of each partition what says that it still is so."""

    basis: Sequence[tuple[int, int]]
    snapshot: Snapshot


class PastCounts:
    """What contests were, by their records as of now; what was asked for last is kept.

    Once the contest changed in a partition in a later minute, what that was at the end of a minute stays so until
    its view is exchanged for another; before that, it is what it is now. So no clock is asked, and no view that
    lags is taken for one that knows.
    """

    def __init__(self, views: PastViews, reads: PastReads, most_figures: int = MOST_FIGURES) -> None:
        self._views = views
        self._reads = reads
        self._locks = WeakValueDictionary[tuple[str, int], asyncio.Lock]()
        self._most = most_figures
        self._kept: OrderedDict[tuple[str, int], Kept] = OrderedDict()
        self._figures = 0

    async def as_of(self, present: Snapshot, minute: int) -> Snapshot:
        """`present` with the counts of the end of `minute` (since 1970).

        Who asks for the same at the same time shares the work. Raises `ViewsUnavailable` and `RateLimited`.
        """
        if not any(_is_past(part, minute) for part in present.parts):
            return present
        basis = [(part.swaps, SETTLED if _is_past(part, minute) else part.changed) for part in present.parts]
        name = present.contest.key, minute
        async with self._locks.setdefault(name, asyncio.Lock()):
            kept = self._kept.get(name)
            if kept is None or kept.basis != basis:
                past = replace(present, counts=sum_of(await self._parts(present, minute)), parts=(), answers={})
            elif kept.snapshot.config is present.config and kept.snapshot.phase is present.phase:
                past = kept.snapshot
            else:
                past = replace(present, counts=kept.snapshot.counts, parts=(), answers={})
            self._keep(name, Kept(basis, past))
        return past

    async def _parts(self, present: Snapshot, minute: int) -> Sequence[ContestCounts]:
        """One partition after the other: calls that go together hold up everybody's for their sum."""
        rows = sum(rows_of(part) for part in present.parts if _is_past(part, minute))
        async with self._reads.turn(present.account, rows):
            return [
                await self._part(partition, part, present.contest.key, minute)
                for partition, part in enumerate(present.parts)
            ]

    async def _part(self, partition: int, present: ContestCounts, contest: str, minute: int) -> ContestCounts:
        if not _is_past(present, minute):
            return present
        subjects = participants_of(present), present.sources
        found = await self._views.counts_at(partition, contest, minute, *subjects)
        if found.position.offset < present.position.offset:
            raise ViewsUnavailable(RECOVERING, retry_after_s=1)
        return replace(found, position=Position(found.position.log_id, found.changed + 1))

    def _keep(self, name: tuple[str, int], kept: Kept) -> None:
        former = self._kept.pop(name, None)
        self._kept[name] = kept
        self._figures += _size(kept) - (0 if former is None else _size(former))
        while self._figures > self._most and len(self._kept) > 1:
            self._figures -= _size(self._kept.popitem(last=False)[1])


def participants_of(part: ContestCounts) -> list[str]:
    """All that ever had a vote in the partition."""
    return [participant for participant, source in part.figures if source == "" != participant]


def rows_of(part: ContestCounts) -> int:
    """What a partition's past costs, in rows."""
    ids = sum(len(source.figures) for source in part.sources.values())
    return PARTITION_ROWS + len(part.figures) // 3 + len(part.sources) + ids


def _is_past(part: ContestCounts, minute: int) -> bool:
    """Whether the contest changed in the partition after the minute's end."""
    return (part.updated_ms or 0) // MINUTE_MS > minute


def _size(kept: Kept) -> int:
    return len(kept.snapshot.counts.figures)
