"""The vote count record of the specification."""

from collections.abc import Iterable
from typing import Any, Final

from libs.contracts.tokens import encode_positions
from libs.tally.contest import MILLION
from libs.tally.errors import timestamp
from libs.tally.figures import Figures, RatingSums
from services.query.answers import Answer, encoded
from services.query.counts import NO_RATINGS
from services.query.results import INTERNAL_SOURCES
from services.query.snapshot import Snapshot

FINALITY: Final = {False: "provisional", True: "final"}


def vote_count(snapshot: Snapshot) -> Answer:
    """Without the breakdown by source."""
    return _answer(snapshot, record(snapshot, sources=False))


def vote_count_by_source(snapshot: Snapshot) -> Answer:
    return _answer(snapshot, record(snapshot, sources=True))


def record(snapshot: Snapshot, sources: bool) -> dict[str, Any]:
    """Every approved participant is there, zero included. Rating contests show ratings beside the counts."""
    contest, counts, results = snapshot.contest, snapshot.counts, snapshot.results
    participants: dict[str, Any] = {key: _counted(results.totals[key]) for key in results.participants}
    made = {
        "contest_key": contest.key,
        "contest_type": contest.contest_type,
        "created": timestamp(snapshot.stored.created),
        "updated": updated(snapshot),
        **_counted(results.totals[""]),
        "participants": participants,
    }
    if contest.contest_type == "rating":
        subs = contest.rating.sub_ratings
        made["rating"] = rating(subs, results.rating)
        for key, shown in participants.items():
            shown["rating"] = rating(subs, counts.ratings.get(key, NO_RATINGS))
    if sources:
        for key, shown in participants.items():
            shown["vote_sources"] = [
                {"source": source, **_counted(figures), **({} if mapped_id is None else {"mapped_id": mapped_id})}
                for source, figures, mapped_id in results.participants[key]
            ]
        made["total_vote_sources"] = [
            {
                "source": total.source,
                "title": total.title,
                **_counted(total.figures),
                "is_in_total": total.is_in_total,
                "is_internal": total.source in INTERNAL_SOURCES,
                "updated": updated(snapshot) if total.updated is None else timestamp(total.updated),
            }
            for total in results.sources
        ]
    return made


def updated(snapshot: Snapshot) -> str | None:
    """When the contest's last event was folded; before there is one, when the contest was created."""
    at_ms = snapshot.counts.updated_ms
    return timestamp(snapshot.stored.created if at_ms is None else at_ms * 1000)


def _answer(snapshot: Snapshot, made: dict[str, Any]) -> Answer:
    finality = FINALITY[snapshot.results.final]
    return encoded(
        made,
        [snapshot.phase, snapshot.visibility, finality],
        [
            (b"cache-control", b"private, max-age=1"),
            (b"tally-final", finality.encode()),
            (b"tally-position", encode_positions(snapshot.counts.positions).encode()),
        ],
    )


def _counted(figures: Figures) -> dict[str, Any]:
    return {
        "count": figures.count,
        "anonymous_voter_count": figures.anonymous,
        "unique_voter_count": figures.unique,
    }


def rating(sub_ratings: Iterable[str], sums: RatingSums) -> dict[str, Any]:
    """Each of `sub_ratings` is there, and those that were given before the scale was changed to these."""
    given = {name: each for name, each in sums.sub_ratings.items() if each[0]}
    names = dict.fromkeys((*sub_ratings, *given))
    return {
        **_sum_and_average(sums.count, sums.total),
        "sub_ratings": {name: _sum_and_average(*given.get(name, (0, 0))) for name in names},
    }


def _sum_and_average(count: int, total: int) -> dict[str, float | None]:
    """Of `total` millionths; the average to the nearest millionth, None without ratings."""
    average = (2 * total + count) // (2 * count) / MILLION if count else None
    return {"sum": total / MILLION, "average": average}
