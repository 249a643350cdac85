"""Reads a contest's counts from the views, and sums them over the partitions."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from libs.results.contest_counts import NO_RATINGS, NOTHING, Counts, joined
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.errors import ViewsUnavailable
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_views import VoteViews

NO_POSITIONS: Final[Mapping[int, int]] = {}


class ContestSums:
    """Sums over partitions. Each voter is in one partition, so the sums of distinct voters are exact, too."""

    def __init__(self, views: VoteViews, contest: str, partitions: Iterable[int]) -> None:
        self._views = views
        self._contest = contest
        self._watched = views.watch_counts()
        self._parts: dict[int, ContestCounts | None] = dict.fromkeys(partitions)
        self._figures: dict[tuple[str, str], VoteSums] = {}
        self._ratings: dict[str, RatingSums] = {}

    async def refresh(self, wanted: Mapping[int, int] = NO_POSITIONS) -> bool:
        """Read changed partitions in one pipeline; return whether there were any. Raises `ViewsUnavailable`.

        Partitions that had not reached their `wanted` offset are read in any case: changes of another version's
        functions may be noticed later (`libs.views.valkey.watched_reads`).
        """
        groups = self._watched.groups(self._parts)
        due = dict(zip(groups, await asyncio.gather(*map(self._watched.due, groups)), strict=True))
        asked = {partition for its in due.values() for partition in its}
        asked.update(partition for partition, offset in wanted.items() if not self._has_reached(partition, offset))
        stale = await self._views.changed(self._contest, {each: self._parts[each] for each in sorted(asked)})
        whole = await self._whole([partition for partition in stale if self._parts[partition] is None])
        fetched = await asyncio.gather(
            *(self._views.counts(partition, self._contest, self._parts[partition]) for partition in stale)
        )
        for partition, part in zip(stale, fetched, strict=True):
            if part is not None and part.position.offset < whole.get(partition, 0):
                raise _rebuilt()
        for group, its in due.items():
            is_surprised = any(each in stale and not self._watched.is_noted(group, each) for each in its)
            self._watched.note_read(group, its)
            if is_surprised:
                self._watched.distrust(group)
        changed = [
            (partition, part)
            for partition, part in zip(stale, fetched, strict=True)
            if part is not None and not _went_back(self._parts[partition], part)
        ]
        if changed:
            # copied, since `counts` has returned the former ones
            self._figures, self._ratings = dict(self._figures), dict(self._ratings)
            for partition, part in changed:
                old = self._parts[partition]
                _replace_figures(self._figures, old.figures if old else {}, part.figures)
                _replace_ratings(self._ratings, old.ratings if old else {}, part.ratings)
                self._parts[partition] = part
        return bool(changed)

    async def _whole(self, partitions: Sequence[int]) -> dict[int, int]:
        """Return the offsets that views have reached which hold all that they ever answered.

        Asked before a partition is first read. Later its former counts show a view that lost data. Raises
        `ViewsUnavailable` for a view that is being folded again since its server was started.
        """
        states = await asyncio.gather(*map(self._views.state, partitions))
        if not all(state.same_run for state in states):
            raise _rebuilt()
        return {partition: state.position.offset for partition, state in zip(partitions, states, strict=True)}

    def _has_reached(self, partition: int, offset: int) -> bool:
        """Return whether the held counts contain everything before `offset`; True of a partition without them."""
        part = self._parts.get(partition)
        return partition not in self._parts or (part is not None and part.position.offset >= offset)

    @property
    def parts(self) -> tuple[ContestCounts, ...]:
        """The summed counts in the order of the partitions: all partitions after the first refresh."""
        return tuple(part for part in self._parts.values() if part is not None)

    @property
    def counts(self) -> Counts:
        """The current sums; later refreshes do not change the returned object."""
        parts = {partition: part for partition, part in self._parts.items() if part is not None}
        return joined(self._figures, self._ratings, parts)


def _rebuilt() -> ViewsUnavailable:
    return ViewsUnavailable("Counts are being computed again from the log; retry shortly.", retry_after_s=1)


def _went_back(held: ContestCounts | None, found: ContestCounts) -> bool:
    """Return whether a view lost writes and is being folded again: the held counts are newer, and valid."""
    if held is None or found.position.offset >= held.position.offset:
        return False
    return found.position.log_id in ("", held.position.log_id)


def _replace_figures(
    sums: dict[tuple[str, str], VoteSums],
    before: Mapping[tuple[str, str], VoteSums],
    after: Mapping[tuple[str, str], VoteSums],
) -> None:
    """Replace a partition's old part in the sums by its new one, which is smaller if the view lost data."""
    for name in before.keys() | after.keys():
        minus, plus = before.get(name, NOTHING), after.get(name, NOTHING)
        if minus is not plus and minus != plus:
            total = sums.get(name, NOTHING)
            sums[name] = VoteSums(
                total.count + plus.count - minus.count,
                total.unique + plus.unique - minus.unique,
                total.anonymous + plus.anonymous - minus.anonymous,
            )


def _replace_ratings(
    sums: dict[str, RatingSums], before: Mapping[str, RatingSums], after: Mapping[str, RatingSums]
) -> None:
    for name in before.keys() | after.keys():
        minus, plus = before.get(name, NO_RATINGS), after.get(name, NO_RATINGS)
        if minus is not plus and minus != plus:
            sums[name] = sums.get(name, NO_RATINGS) + plus + -minus
