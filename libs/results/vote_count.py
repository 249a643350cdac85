"""Builds the specification's vote count record."""

from collections.abc import Iterable
from typing import Any

from libs.results.contest_counts import NO_RATINGS, Counts
from libs.results.contest_results import INTERNAL_SOURCES, Results
from libs.results.ranking import average
from libs.tally.contest import MILLION, Contest
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.time_conversion import timestamp


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
