"""Historical counts, as of the end of a minute."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from libs.contracts.log_records import Position
from libs.results.contest_counts import sum_of
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.timeline import MINUTE_MS, Timeline
from libs.web.errors import RateLimited
from services.query.counts_snapshot import Snapshot

AT_ONCE: Final = 2
"""Concurrent reads of a process, of different accounts: their calls reach Valkey together."""
BURST_S: Final = 20
"""Burst of an account, in seconds of its rate."""
MOST_ACCOUNTS: Final = 10_000
PARTITION_ROWS: Final = 10
"""Fixed cost of reading a partition, in rows."""


class PastReads:
    """Rate limiter of historical reads by their rows, which cost Valkey some 15 us each.

    A row is a participant, or an external source, of a partition. A read that costs more than the remaining
    budget is admitted if any budget remains, and the debt is paid off over time.
    """

    def __init__(self, rows_per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Limit each account to `rows_per_s`; 0: no limit."""
        self._rate = rows_per_s
        self._clock = clock
        self._left = OrderedDict[str, tuple[float, float]]()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self, account: str, rows: int) -> AsyncIterator[None]:
        """Admit one read of an account at a time, and `AT_ONCE` in all. Raises `RateLimited`."""
        async with self._locks.setdefault(account, asyncio.Lock()):
            self._spend(account, rows)
            async with self._slots:
                yield

    def _spend(self, account: str, rows: int) -> None:
        if not self._rate:
            return
        now, burst = self._clock(), self._rate * BURST_S
        left, at = self._left.pop(account, (burst, now))
        left = min(burst, left + (now - at) * self._rate)
        self._left[account] = left - max(0, rows) * (left > 0), now
        if len(self._left) > MOST_ACCOUNTS:
            self._left.popitem(last=False)
        if left <= 0:
            raise RateLimited(
                "This account has read too many past counts in a short time.",
                retry_after_s=1 - left / self._rate,
            )


MOST_FIGURES: Final = 200_000
"""Sums cached in a process: some 300 bytes each."""
SETTLED: Final = -2
"""Replaces the offset of the last change in a partition whose later changes do not matter."""


class CachedCounts(NamedTuple):
    """A historical snapshot, and per partition the view's state for which it is valid."""

    basis: Sequence[tuple[int, int]]
    snapshot: Snapshot


class PastCounts:
    """An LRU cache of contests' historical counts, by their current records.

    Once a contest changed in a partition in a later minute, the counts as of a minute are fixed until the
    partition's view is swapped for another generation; before that, they are the current ones. So neither clocks
    nor lagging views affect them.
    """

    def __init__(self, views: Timeline, reads: PastReads, most_figures: int = MOST_FIGURES) -> None:
        self._views = views
        self._reads = reads
        self._locks = WeakValueDictionary[tuple[str, int], asyncio.Lock]()
        self._most = most_figures
        self._cached: OrderedDict[tuple[str, int], CachedCounts] = OrderedDict()
        self._figures = 0

    async def as_of(self, present: Snapshot, minute: int) -> Snapshot:
        """Return `present` with the counts as of the end of `minute` (since 1970).

        Concurrent calls for the same share the work. Raises `ViewsUnavailable` and `RateLimited`.
        """
        if not any(_is_past(part, minute) for part in present.parts):
            return present
        basis = [(part.swaps, SETTLED if _is_past(part, minute) else part.changed) for part in present.parts]
        name = present.contest.key, minute
        async with self._locks.setdefault(name, asyncio.Lock()):
            cached = self._cached.get(name)
            if cached is None or cached.basis != basis:
                past = replace(present, counts=sum_of(await self._parts(present, minute)), parts=(), answers={})
            elif cached.snapshot.config is present.config and cached.snapshot.phase is present.phase:
                past = cached.snapshot
            else:
                past = replace(present, counts=cached.snapshot.counts, parts=(), answers={})
            self._cache(name, CachedCounts(basis, past))
        return past

    async def _parts(self, present: Snapshot, minute: int) -> Mapping[int, ContestCounts]:
        """Read one partition after the other: pipelined calls would delay other requests for their sum."""
        rows = sum(rows_of(part) for part in present.parts if _is_past(part, minute))
        async with self._reads.turn(present.account, rows):
            return {
                partition: await self._part(partition, part, present.contest.key, minute)
                for partition, part in enumerate(present.parts, present.contest.votes_from)
            }

    async def _part(self, partition: int, present: ContestCounts, contest: str, minute: int) -> ContestCounts:
        if not _is_past(present, minute):
            return present
        subjects = participants_of(present), present.sources
        found = await self._views.counts_at(partition, contest, minute, *subjects)
        if found.position.offset < present.position.offset:
            raise ViewsUnavailable(RECOVERING, retry_after_s=1)
        return replace(found, position=Position(found.position.log_id, found.changed + 1))

    def _cache(self, name: tuple[str, int], counts: CachedCounts) -> None:
        former = self._cached.pop(name, None)
        self._cached[name] = counts
        self._figures += _size(counts) - (0 if former is None else _size(former))
        while self._figures > self._most and len(self._cached) > 1:
            self._figures -= _size(self._cached.popitem(last=False)[1])


def participants_of(part: ContestCounts) -> list[str]:
    """Return all participants that ever had a vote in the partition."""
    return [participant for participant, source in part.figures if source == "" != participant]


def rows_of(part: ContestCounts) -> int:
    """Return the cost of a partition's historical counts, in rows."""
    ids = sum(len(source.figures) for source in part.sources.values())
    return PARTITION_ROWS + len(part.figures) // 3 + len(part.sources) + ids


def _is_past(part: ContestCounts, minute: int) -> bool:
    """Return whether the contest changed in the partition after the minute's end."""
    return (part.updated_ms or 0) // MINUTE_MS > minute


def _size(cached: CachedCounts) -> int:
    return len(cached.snapshot.counts.figures)
