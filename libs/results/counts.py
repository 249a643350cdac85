"""What the fold says of a contest over all partitions, whoever added it up: from the views, or from the log."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from libs.catalogue.contests.vote_sources import Reported
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.fold import ContestTally

NOTHING: Final = VoteSums()
NO_RATINGS: Final = RatingSums()


class ReportedBy(Reported, Protocol):
    """One external source, with the closing in force for it, and when its last report was appended (ms)."""

    @property
    def closed(self) -> int: ...
    @property
    def updated_ms(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Counts:
    """What the fold says of a contest, summed over partitions, of every participant whatever its status.

    `figures` is of the internal sources, by (participant or "" for the contest, source or "" for both); `ratings`
    by participant. `sources` are the external ones, each of which lives in one partition. `positions` are next
    offsets by partition up to which this holds; it may hold further than that. `closed` is the closing that every
    partition has passed the mark of, `updated_ms` when the last event of the contest was appended.
    """

    figures: Mapping[tuple[str, str], VoteSums] = field(default_factory=dict)
    ratings: Mapping[str, RatingSums] = field(default_factory=dict)
    sources: Mapping[str, ReportedBy] = field(default_factory=dict)
    positions: Mapping[int, int] = field(default_factory=dict)
    closed: int = 0
    updated_ms: int | None = None

    def at(self, participant: str, source: str) -> VoteSums:
        return self.figures.get((participant, source), NOTHING)


def counts_of(tallies: Iterable[ContestTally], positions: Mapping[int, int]) -> Counts:
    """The sum of folds of the log, one of each partition. A voter lives in one of them, so it is exact."""
    tallies = list(tallies)
    figures: defaultdict[tuple[str, str], VoteSums] = defaultdict(VoteSums)
    ratings: defaultdict[str, RatingSums] = defaultdict(RatingSums)
    for tally in tallies:
        for (participant, source), given in tally.figures.items():
            figures[participant, source] += given
            if source:  # a tally keeps no count over both sources
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
