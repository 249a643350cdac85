"""Ranks of a contest's participants: by votes, or in rating contests by average."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from libs.results.contest_counts import NO_RATINGS, Counts
from libs.results.contest_results import Results
from libs.tally.contest import MILLION
from libs.tally.counts import RatingSums


class RankKey(NamedTuple):
    """Sort key of a participant; the largest is first, equal ones share a place.

    `average` is that of the ratings in millionths, -1 without ratings; 0 in all other contests, where votes alone
    decide.
    """

    average: int
    votes: int


def average(count: int, total: int) -> int | None:
    """Return the average of `count` values with the sum `total`, rounded; None without values."""
    return (2 * total + count) // (2 * count) if count else None


def rank_key(votes: int, rating: RatingSums | None) -> RankKey:
    """Return the key of a participant; `rating` is None unless the contest is a rating contest."""
    if rating is None:
        return RankKey(0, votes)
    mean = average(rating.count, rating.total)
    return RankKey(-1 if mean is None else mean, votes)


def rank_keys(contest_type: str, counts: Counts, results: Results) -> dict[str, RankKey]:
    """Return the key of each participant of `results`, which were computed from `counts`."""
    rated = contest_type == "rating"
    return {
        key: rank_key(results.totals[key].count, counts.ratings.get(key, NO_RATINGS) if rated else None)
        for key in results.participants
    }


def entry_rank_key(entry: Mapping[str, Any]) -> RankKey:
    """Return the key of a participant in a vote count record."""
    if "rating" not in entry:
        return RankKey(0, entry["count"])
    mean = entry["rating"]["average"]
    return RankKey(-1 if mean is None else round(mean * MILLION), entry["count"])


def places(keys: Iterable[RankKey]) -> dict[RankKey, int]:
    """Return the place of each key, from 1 for the largest; equal keys share a place."""
    found: dict[RankKey, int] = {}
    for place, key in enumerate(sorted(keys, reverse=True), start=1):
        found.setdefault(key, place)
    return found
