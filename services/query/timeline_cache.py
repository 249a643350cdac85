"""Caches the changes of contests' counts over time."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import add, sub
from typing import Final

from libs.contracts.log_records import Position
from libs.results.contest_counts import NO_RATINGS
from libs.tally.counts import VoteSums
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.timeline import MINUTE_MS, PastRow, Timeline, TimelineChange
from services.query.counts_snapshot import Snapshot
from services.query.historical_counts import PastReads, participants_of, rows_of

MOST_CHANGES: Final = 1_000_000
"""Changes cached in a process: some 250 bytes each."""
MOST_CONTESTS: Final = 1_000
"""Contests cached in a process."""
MOST_STEPS: Final = 3_000
"""Steps cached for one contest; a response has at most half as many."""

Subject = tuple[str, str]
""""" and a participant ("" for the contest itself), or an external source and one of its ids."""
Cells = Sequence[int]
"""Votes, distinct voters, and distinct anonymous voters. An external source's id has these three; a row has them
for c-free, then for c-paid, then the two numbers of voters over both, then the number of ratings and their sum in
millionths."""
COUNT, UNIQUE, ANONYMOUS, PAID, BOTH_UNIQUE, RATINGS, RATING_SUM = 0, 1, 2, 3, 6, 8, 9
NONE_YET: Final = (0,) * 10


@dataclass(slots=True)
class PartitionTimeline:
    """One partition: `state` has its numbers before the minute `until`; with `latest`, the changes in the step
    `step`, they are those of `present`."""

    basis: object
    until: int
    state: dict[Subject, Cells]
    changed: int = -1
    present: ContestCounts | None = None
    step: int = 0
    latest: Mapping[Subject, Cells] = field(default_factory=dict)


class Series:
    """Changes of a contest from the minute `begin` (since 1970) on, in steps of so many minutes.

    Once a contest changed in a partition in a later minute, earlier changes are fixed until the view is swapped
    for another generation: they are read once, and `settled`. The latest minute is the difference of the current
    state. `version` is a new object after each change of `settled`; `size` is the number of cached changes and
    numbers.
    """

    def __init__(self, views: Timeline, contest: str, begin: int, minutes: int) -> None:
        self.size = 0
        self._views = views
        self._contest = contest
        self._begin = begin
        self._minutes = minutes
        self.settled: defaultdict[Subject, dict[int, Cells]] = defaultdict(dict)
        self.version = object()
        self._first = 0
        self._parts: list[PartitionTimeline] = []

    def serves(self, present: Snapshot, begin: int, until: int) -> bool:
        """Return whether the series is still valid and may be extended to `until`."""
        last = max([until, *(part.until for part in self._parts)])
        return (
            self._begin <= begin
            and last - self._begin <= MOST_STEPS * self._minutes
            and all(
                part.basis == basis(found) and part.changed <= found.changed
                for part, found in zip(self._parts, present.parts, strict=True)
            )
        )

    def rows_to_read(self, present: Snapshot, until: int) -> int:
        """Return the cost of extending it to the minute `until`, in rows; 0 if nothing is read."""
        if not self._parts:
            return sum(rows_of(part) for part in present.parts)
        pairs = zip(self._parts, present.parts, strict=True)
        return sum(rows_of(found) for part, found in pairs if min(_minute(found), until) > part.until)

    async def reach(self, present: Snapshot, until: int) -> None:
        """Extend it to the minute `until`, at most to `present`. Discard it if this raises `ViewsUnavailable`."""
        if not self._parts:
            self._first = present.contest.votes_from
            self._parts = [await self._before(*each) for each in enumerate(present.parts, self._first)]
            self.size = sum(len(part.state) for part in self._parts)
        for partition, found in enumerate(present.parts, self._first):
            await self._settle(partition, found, min(_minute(found), until))

    async def _before(self, partition: int, found: ContestCounts) -> PartitionTimeline:
        if _minute(found) >= self._begin > 0:
            subjects = participants_of(found), found.sources
            past = await self._views.counts_at(partition, self._contest, self._begin - 1, *subjects)
            _is_not_lost(past.position, found)
            return PartitionTimeline(basis(found), self._begin, _state(past))
        return PartitionTimeline(basis(found), self._begin, _state(found) if _minute(found) < self._begin else {})

    async def _settle(self, partition: int, found: ContestCounts, until: int) -> None:
        part = self._parts[partition - self._first]
        if until > part.until:
            part.present, part.latest = None, {}
            minutes = range(part.until, until, self._minutes)
            rows = [participant for participant, source in found.figures if source == ""]
            async for page in self._views.changes(partition, self._contest, minutes, rows, found.sources):
                _is_not_lost(page.position, found)
                for change in page.changes:
                    self._add(part.state, change)
            part.until = until
            self.version = object()
        if part.present is not found and _minute(found) <= part.until:
            part.present, part.latest = found, _since(part.state, found)
            part.step = _minute(found) // self._minutes
        part.changed = found.changed

    def _add(self, state: dict[Subject, Cells], change: TimelineChange) -> None:
        step = change.minute // self._minutes
        subject, cells = change.subject, _cells(change)
        more = map(sub, cells, state.get(subject, NONE_YET))
        state[subject] = cells
        steps = self.settled[subject]
        if step in steps:
            steps[step] = tuple(map(add, steps[step], more))
        else:
            steps[step] = tuple(more)
            self.size += 1

    def latest(self) -> Iterator[tuple[Subject, int, Cells]]:
        """Yield the changes that are not settled: subject, step, difference."""
        for part in self._parts:
            for subject, cells in part.latest.items():
                yield subject, part.step, cells


class TimelineCache:
    """An LRU cache of contests' series, limited by the number of changes."""

    def __init__(self, views: Timeline, reads: PastReads, most_changes: int = MOST_CHANGES) -> None:
        self._views = views
        self._reads = reads
        self._most = most_changes
        self._series: OrderedDict[tuple[str, int], Series] = OrderedDict()
        self._firsts: OrderedDict[str, tuple[object, int | None]] = OrderedDict()

    async def first_minute(self, present: Snapshot) -> int | None:
        """Return the first minute (since 1970) in which the contest changed, None before any change."""
        contest = present.contest.key
        state = [(basis(part), part.changed >= 0) for part in present.parts]
        known = self._firsts.get(contest)
        if known is None or known[0] != state:
            found = await asyncio.gather(
                *(
                    self._views.first_minute(partition, contest)
                    for partition, _ in enumerate(present.parts, present.contest.votes_from)
                )
            )
            known = state, min((minute for minute in found if minute is not None), default=None)
            self._firsts[contest] = known
            if len(self._firsts) > MOST_CONTESTS:
                self._firsts.popitem(last=False)
        return known[1]

    async def series(self, present: Snapshot, begin: int, until: int, minutes: int) -> Series:
        """Return a series that covers the minutes `begin` to `until`, multiples of `minutes`.

        Not reentrant for the same contest and step. Raises `ViewsUnavailable` and `RateLimited`.
        """
        name = present.contest.key, minutes
        series = self._series.pop(name, None)
        if series is None or not series.serves(present, begin, until):
            series = Series(self._views, present.contest.key, begin, minutes)
        if rows := series.rows_to_read(present, until):
            async with self._reads.turn(present.account, rows):
                await series.reach(present, until)
        else:
            await series.reach(present, until)
        self._series[name] = series
        while len(self._series) > 1 and (
            len(self._series) > MOST_CONTESTS or sum(each.size for each in self._series.values()) > self._most
        ):
            self._series.popitem(last=False)
        return series


def basis(part: ContestCounts) -> tuple[str, int]:
    """Return the state of a partition's view for which settled changes are valid."""
    return part.position.log_id, part.swaps


def _minute(part: ContestCounts) -> int:
    """Return the minute of the latest change, -1 before any."""
    return -1 if part.changed < 0 else (part.updated_ms or 0) // MINUTE_MS


def _is_not_lost(position: Position, found: ContestCounts) -> None:
    if position.offset < found.position.offset:
        raise ViewsUnavailable(RECOVERING, retry_after_s=1)


def _state(part: ContestCounts) -> dict[Subject, Cells]:
    state: dict[Subject, Cells] = {}
    for participant, source in part.figures:
        if source == "":
            free, paid, both = (part.figures[participant, name] for name in ("c-free", "c-paid", ""))
            given = part.ratings.get(participant, NO_RATINGS)
            voters = both.unique, both.anonymous
            state["", participant] = (*_three(free), *_three(paid), *voters, given.count, given.total)
    for name, reported in part.sources.items():
        state |= {(name, mapped_id): _three(figures) for mapped_id, figures in reported.figures.items()}
    return state


def _since(state: Mapping[Subject, Cells], found: ContestCounts) -> dict[Subject, Cells]:
    now = _state(found)
    changed = (subject for subject in now.keys() | state.keys() if now.get(subject) != state.get(subject))
    return {
        subject: tuple(map(sub, now.get(subject, NONE_YET), state.get(subject, NONE_YET))) for subject in changed
    }


def _cells(change: TimelineChange) -> Cells:
    if isinstance(change.value, PastRow):
        return (*change.value.cells[:8], change.value.rating.count, change.value.rating.total)
    return _three(change.value.figures)


def _three(figures: VoteSums) -> tuple[int, int, int]:
    return figures.count, figures.unique, figures.anonymous
