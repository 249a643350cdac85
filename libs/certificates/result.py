"""Converts a closed contest's results to their form in a certificate."""

from operator import attrgetter

from libs.contracts.certificates import ParticipantResult, Ratings, Result, SourceTotal, SourceVotes, SubRating
from libs.results.contest_counts import NO_RATINGS, Counts
from libs.results.contest_results import Results, SourceFigures
from libs.results.ranking import places, rank_keys
from libs.tally.counts import RatingSums, VoteSums


def certified(contest_type: str, counts: Counts, results: Results) -> Result:
    """Return the certified result; `results` were computed from `counts`."""
    totals, keys = results.totals, sorted(results.participants)
    rated = contest_type == "rating"
    order = rank_keys(contest_type, counts, results)
    ranks = places(order.values())
    return Result(
        contest_type=contest_type,
        **_votes(totals[""]),
        sources=[
            SourceTotal(source=total.source, is_in_total=total.is_in_total, **_votes(total.figures))
            for total in sorted(results.sources, key=attrgetter("source"))
        ],
        participants=[
            ParticipantResult(
                participant_key=key,
                rank=ranks[order[key]],
                **_votes(totals[key]),
                sources=[
                    SourceVotes(source=source, mapped_id=mapped_id, **_votes(figures))
                    for source, figures, mapped_id in sorted(results.participants[key], key=_place)
                ],
                rating=_ratings(counts.ratings.get(key, NO_RATINGS)) if rated else None,
            )
            for key in keys
        ],
        rating=_ratings(results.rating) if rated else None,
    )


def _place(figures: SourceFigures) -> tuple[str, str]:
    return figures.source, figures.mapped_id or ""


def _votes(figures: VoteSums) -> dict[str, int]:
    return {
        "count": figures.count,
        "unique_voter_count": figures.unique,
        "anonymous_voter_count": figures.anonymous,
    }


def _ratings(sums: RatingSums) -> Ratings:
    given = sorted((name, *each) for name, each in sums.sub_ratings.items() if each[0])
    subs = [SubRating(sub_rating_id=name, count=count, total=total) for name, count, total in given]
    return Ratings(count=sums.count, total=sums.total, sub_ratings=subs)
