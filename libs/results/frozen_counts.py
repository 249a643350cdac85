"""Counts of a moment, kept in the record of a contest's show: screens show them while votes go on."""

from collections.abc import Mapping
from typing import Any

from libs.catalogue.contests.vote_sources import SourceConfig
from libs.results.contest_counts import Counts
from libs.results.contest_results import results_of
from libs.tally.contest import Contest
from libs.tally.counts import RatingSums, VoteSums


def freeze(contest: Contest, sources: Mapping[str, SourceConfig], counts: Counts) -> dict[str, Any]:
    """Return the totals and ratings of `counts` as JSON values; `thaw` reads them."""
    results = results_of(contest, sources, counts)
    return {
        "totals": {key: [sums.count, sums.unique, sums.anonymous] for key, sums in results.totals.items()},
        "ratings": {
            key: [sums.count, sums.total, list(sums.values)]
            for key, sums in counts.ratings.items()
            if key in results.participants
        },
        "closed": contest.closed if results.final else 0,
        "updated_ms": counts.updated_ms,
    }


def thaw(frozen: Mapping[str, Any]) -> Counts:
    """Return the counts that `freeze` kept, without sources: their votes are in the totals."""
    return Counts(
        figures={(key, ""): VoteSums(*sums) for key, sums in frozen["totals"].items()},
        ratings={
            key: RatingSums(count, total, values=tuple(values))
            for key, (count, total, values) in frozen["ratings"].items()
        },
        closed=frozen["closed"],
        updated_ms=frozen["updated_ms"],
    )
