"""Results of a contest: votes for approved participants by source, in total and ranked; the vote count record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from libs.catalogue.contests.vote_sources import SourceConfig, external_counts
from libs.results.contest_counts import NO_RATINGS, NOTHING, Counts
from libs.tally.contest import MILLION, Contest
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.time_conversion import timestamp

INTERNAL_SOURCES: Final = {"c-free": "Free votes", "c-paid": "Paid votes"}
"""Titles of the sources that every contest has; they are always in the total."""


class ParticipantSource(NamedTuple):
    """Votes of a source for a participant; of an external source, one entry per id mapped to the participant."""

    source: str
    figures: VoteSums
    mapped_id: str | None = None


class SourceTotal(NamedTuple):
    """Votes of a source in the contest. `updated` (us): an external source's last report, or registration."""

    source: str
    title: str
    figures: VoteSums
    is_in_total: bool
    updated: int | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """Results over approved participants only, except that the distinct voters of the contest and of the internal
    sources still include the voters of participants rejected later.

    `totals` are by participant, "" for the contest, whose count is the sum of theirs and of the sources in the
    total. `participants` is ordered by running number. `final`: only a reopening can change the results.
    """

    participants: Mapping[str, Sequence[ParticipantSource]]
    sources: Sequence[SourceTotal]
    totals: Mapping[str, VoteSums]
    rating: RatingSums
    final: bool


def results_of(contest: Contest, registered: Mapping[str, SourceConfig], counts: Counts) -> Results:
    """Compute the results. External counts are summed, because their voters are unknown."""
    approved = [key for key, status in contest.participants.items() if status == "approved"]
    participants = {
        key: [ParticipantSource(name, counts.at(key, name)) for name in INTERNAL_SOURCES] for key in approved
    }
    totals = {key: counts.at(key, "") for key in approved}
    total = _counting(counts.at("", ""), approved, counts, "")
    sources = [
        SourceTotal(name, title, _counting(counts.at("", name), approved, counts, name), True)
        for name, title in INTERNAL_SOURCES.items()
    ]
    for name, external in external_counts(registered, counts.sources, contest.participants).items():
        config, given = external.config, NOTHING
        for (participant, mapped_id), figures in external.counted.items():
            if participant in participants:
                participants[participant].append(ParticipantSource(name, figures, mapped_id))
                given += figures
                if config.is_in_total:
                    totals[participant] += figures
        reported = counts.sources.get(name)
        updated = reported.updated_ms * 1000 if reported is not None and reported.updated_ms else config.registered
        sources.append(SourceTotal(name, config.title, given, config.is_in_total, updated))
        total += given if config.is_in_total else NOTHING
    rating = sum((counts.ratings[key] for key in approved if key in counts.ratings), NO_RATINGS)
    return Results(participants, sources, totals | {"": total}, rating, _final(contest, registered, counts))


def _counting(voters: VoteSums, approved: Sequence[str], counts: Counts, source: str) -> VoteSums:
    """Return the number of votes for approved participants, with the distinct voters of all participants."""
    return VoteSums(sum(counts.at(key, source).count for key in approved), voters.unique, voters.anonymous)


def _final(contest: Contest, registered: Mapping[str, SourceConfig], counts: Counts) -> bool:
    """Return whether every partition and external source has passed the close marker of the current closing."""
    passed = [
        counts.closed,
        *(counts.sources[name].closed if name in counts.sources else 0 for name in registered),
    ]
    return contest.closed > 0 and min(passed) >= contest.closed


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


def places(keys: Mapping[str, RankKey]) -> dict[str, int]:
    """Return the place of each participant, from 1 for the largest key; equal keys share a place."""
    found: dict[RankKey, int] = {}
    for place, key in enumerate(sorted(keys.values(), reverse=True), start=1):
        found.setdefault(key, place)
    return {participant: found[key] for participant, key in keys.items()}


def places_in(participants: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """Return the place of each of the `participants` in a vote count record."""
    return places({key: entry_rank_key(entry) for key, entry in participants.items()})


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
