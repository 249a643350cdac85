"""A contest's counts over all partitions, summed from the views or from a fold of the log."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from libs.catalogue.contests.vote_sources import Reported
from libs.contracts.topics import VotesLog
from libs.tally.contest import Contest
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.fold import ContestTally
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_views import VoteViews

NOTHING: Final = VoteSums()
NO_RATINGS: Final = RatingSums()


class ReportedBy(Reported, Protocol):
    """Counts of one external source, with its last closing and the append time of its last report (ms)."""

    @property
    def closed(self) -> int: ...
    @property
    def updated_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Counts:
    """A contest's counts, summed over partitions, of all participants with any status.

    `figures` are the internal sources' by (participant or "" for the contest, source or "" for both); `ratings` by
    participant; `sources` are the external sources, each in one partition. The counts include at least the events
    before `positions`, next offsets by partition. `closed` is the latest closing whose close marker every
    partition has passed, `updated_ms` the append time of the contest's last event.
    """

    figures: Mapping[tuple[str, str], VoteSums] = field(default_factory=dict)
    ratings: Mapping[str, RatingSums] = field(default_factory=dict)
    sources: Mapping[str, ReportedBy] = field(default_factory=dict)
    positions: Mapping[int, int] = field(default_factory=dict)
    closed: int = 0
    updated_ms: int | None = None

    def at(self, participant: str, source: str) -> VoteSums:
        return self.figures.get((participant, source), NOTHING)


def sum_of(parts: Mapping[int, ContestCounts]) -> Counts:
    """Sum the views by partition, in their order, without zeros. Each voter is in one only."""
    figures: defaultdict[tuple[str, str], VoteSums] = defaultdict(VoteSums)
    ratings: defaultdict[str, RatingSums] = defaultdict(RatingSums)
    for part in parts.values():
        for name, its in part.figures.items():
            if its != NOTHING:
                figures[name] += its
        for participant, sums in part.ratings.items():
            if sums != NO_RATINGS:
                ratings[participant] += sums
    return joined(dict(figures), dict(ratings), parts)


def joined(
    figures: Mapping[tuple[str, str], VoteSums],
    ratings: Mapping[str, RatingSums],
    by_partition: Mapping[int, ContestCounts],
) -> Counts:
    """Join the sums over the partitions with their sources, positions and times."""
    parts = by_partition.values()
    return Counts(
        figures=figures,
        ratings=ratings,
        sources={name: source for part in parts for name, source in part.sources.items()},
        positions={partition: part.position.offset for partition, part in by_partition.items()},
        closed=min((part.closed for part in parts), default=0),
        updated_ms=max((part.updated_ms for part in parts if part.updated_ms), default=None),
    )


def counts_of(tallies: Iterable[ContestTally], positions: Mapping[int, int]) -> Counts:
    """Sum the folds of all partitions. Each voter is in one partition, so distinct voters are exact."""
    tallies = list(tallies)
    figures: defaultdict[tuple[str, str], VoteSums] = defaultdict(VoteSums)
    ratings: defaultdict[str, RatingSums] = defaultdict(RatingSums)
    for tally in tallies:
        for (participant, source), given in tally.figures.items():
            figures[participant, source] += given
            if source:  # a tally has no count over both sources
                figures[participant, ""] += VoteSums(given.count)
        for participant, sums in tally.ratings.items():
            ratings[participant] += sums
    return Counts(
        figures=dict(figures),
        ratings=dict(ratings),
        sources={name: source for tally in tallies for name, source in tally.sources.items()},
        positions=positions,
        closed=min((tally.closed for tally in tallies), default=0),
        updated_ms=max((tally.last_time_ms for tally in tallies if tally.last_offset >= 0), default=None),
    )


async def read_counts(views: VoteViews, log: VotesLog, contest: Contest) -> Counts:
    """Return the contest's counts, read from each partition of its topic. Raises `ViewsUnavailable`."""
    partitions = log.topic_from(contest.votes_from).numbers
    found = await asyncio.gather(*(views.counts(partition, contest.key) for partition in partitions))
    return sum_of({partition: part for partition, part in zip(partitions, found, strict=True) if part is not None})
