"""What counts in a contest: its approved participants, and the sources that are in the total."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from libs.catalogue.contests.vote_sources import SourceConfig, external_counts
from libs.results.counts import NO_RATINGS, NOTHING, Counts
from libs.tally.contest import Contest
from libs.tally.counts import RatingSums, VoteSums

INTERNAL_SOURCES: Final = {"c-free": "Free votes", "c-paid": "Paid votes"}
"""The sources that every contest has, always in the total, with their titles."""


class SourceFigures(NamedTuple):
    """What a source gave a participant; an external one by each of its own ids that is mapped to it."""

    source: str
    figures: VoteSums
    mapped_id: str | None = None


class SourceTotal(NamedTuple):
    """What a source gave the contest. `updated` (us): the last report of an external one, or its registration."""

    source: str
    title: str
    figures: VoteSums
    is_in_total: bool
    updated: int | None = None


@dataclass(frozen=True, slots=True)
class Results:
    """Of approved participants alone. Of internal sources, voters of participants rejected since stay among the
    contest's and the sources' distinct ones.

    `totals` are by participant, "" for the contest; its count is the sum of theirs, and of the sources in total.
    `participants` is by running number. `final`: nothing changes this but a reopening.
    """

    participants: Mapping[str, Sequence[SourceFigures]]
    sources: Sequence[SourceTotal]
    totals: Mapping[str, VoteSums]
    rating: RatingSums
    final: bool


def results_of(contest: Contest, registered: Mapping[str, SourceConfig], counts: Counts) -> Results:
    """External figures are added up: of them, nobody knows which voter they are."""
    approved = [key for key, status in contest.participants.items() if status == "approved"]
    participants = {
        key: [SourceFigures(name, counts.at(key, name)) for name in INTERNAL_SOURCES] for key in approved
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
                participants[participant].append(SourceFigures(name, figures, mapped_id))
                given += figures
                if config.is_in_total:
                    totals[participant] += figures
        reported = counts.sources.get(name)
        updated = reported.updated_ms * 1000 if reported is not None and reported.updated_ms else config.registered
        sources.append(SourceTotal(name, config.title, given, config.is_in_total, updated))
        total += given if config.is_in_total else NOTHING
    rating = sum((counts.ratings[key] for key in approved if key in counts.ratings), NO_RATINGS)
    return Results(participants, sources, totals | {"": total}, rating, _final(contest, registered, counts))


def places(counts: Iterable[int]) -> dict[int, int]:
    """The place that each count has, from 1 for the largest; equal ones share theirs."""
    found: dict[int, int] = {}
    for place, count in enumerate(sorted(counts, reverse=True), start=1):
        found.setdefault(count, place)
    return found


def _counting(voters: VoteSums, approved: Sequence[str], counts: Counts, source: str) -> VoteSums:
    """The votes for approved participants, beside the distinct voters of all."""
    return VoteSums(sum(counts.at(key, source).count for key in approved), voters.unique, voters.anonymous)


def _final(contest: Contest, registered: Mapping[str, SourceConfig], counts: Counts) -> bool:
    """Whether every partition and every external source has passed its mark of the closing in force."""
    marks = [counts.closed, *(counts.sources[name].closed if name in counts.sources else 0 for name in registered)]
    return contest.closed > 0 and min(marks) >= contest.closed
