"""A contest's counts over all partitions, from the views or a fold of the log, and their vote count record."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from libs.catalogue.contests.vote_sources import Reported
from libs.results.contest_results import INTERNAL_SOURCES, Results, average
from libs.tally.contest import MILLION, Contest
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.views.reply_types import ContestCounts

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


def vote_count(
    contest: Contest, created: int, counts: Counts, results: Results, *, sources: bool
) -> dict[str, Any]:
    """Build the record with every approved participant, also without votes; rating contests add ratings.

    `results` derive from `counts`; `created` (us) is the creation time of the contest's record. `sources` adds the
    counts by source.
    """
    participants: dict[str, Any] = {key: _counted(results.totals[key]) for key in results.participants}
    record = {
        "contest_key": contest.key,
        "contest_type": contest.contest_type,
        "created": timestamp(created),
        "updated": updated(created, counts),
        **_counted(results.totals[""]),
        "participants": participants,
    }
    if contest.contest_type == "rating":
        subs = contest.rating.sub_ratings
        record["rating"] = rating(subs, results.rating)
        for key, shown in participants.items():
            shown["rating"] = rating(subs, counts.ratings.get(key, NO_RATINGS))
    if sources:
        for key, shown in participants.items():
            shown["vote_sources"] = [
                {"source": source, **_counted(figures), **({} if mapped_id is None else {"mapped_id": mapped_id})}
                for source, figures, mapped_id in results.participants[key]
            ]
        record["total_vote_sources"] = [
            {
                "source": total.source,
                "title": total.title,
                **_counted(total.figures),
                "is_in_total": total.is_in_total,
                "is_internal": total.source in INTERNAL_SOURCES,
                "updated": updated(created, counts) if total.updated is None else timestamp(total.updated),
            }
            for total in results.sources
        ]
    return record


def updated(created: int, counts: Counts) -> str | None:
    """Return the append time of the contest's last event, or the contest's creation time without any."""
    return timestamp(created if counts.updated_ms is None else counts.updated_ms * 1000)


def _counted(figures: VoteSums) -> dict[str, Any]:
    return {
        "count": figures.count,
        "anonymous_voter_count": figures.anonymous,
        "unique_voter_count": figures.unique,
    }


def rating(sub_ratings: Iterable[str], sums: RatingSums) -> dict[str, Any]:
    """Build the ratings of all `sub_ratings`, and of former ones that received ratings."""
    given = {name: each for name, each in sums.sub_ratings.items() if each[0]}
    names = dict.fromkeys((*sub_ratings, *given))
    return {
        **_sum_and_average(sums.count, sums.total),
        "distribution": {str(value): count for value, count in enumerate(sums.values) if count},
        "sub_ratings": {name: _sum_and_average(*given.get(name, (0, 0))) for name in names},
    }


def _sum_and_average(count: int, total: int) -> dict[str, float | None]:
    """Convert `total` millionths to a sum, and to an average rounded to millionths; None without ratings."""
    mean = average(count, total)
    return {"sum": total / MILLION, "average": None if mean is None else mean / MILLION}
