"""The timeline of a contest, as it is served."""

from collections.abc import Collection
from typing import Any, Final, NamedTuple

from libs.results.results import INTERNAL_SOURCES, Results
from libs.tally.contest import MILLION
from libs.tally.errors import timestamp
from services.query.answers import Answer
from services.query.record import answer_of, updated
from services.query.snapshot import Snapshot
from services.query.timelines import ANONYMOUS, BOTH_ANONYMOUS, BOTH_UNIQUE, COUNT, PAID, UNIQUE, Series

NUMBERS: Final = ("count", "unique_voter_count", "anonymous_voter_count")


class Span(NamedTuple):
    """So many steps of `interval` seconds, since 1970."""

    interval: int
    steps: range


def width(results: Results) -> int:
    """How many numbers each step has."""
    entries = (1 + len({source for source, *_ in shown}) for shown in results.participants.values())
    return sum(entries) + len(NUMBERS) * (1 + len(results.sources))


def timeline(snapshot: Snapshot, series: Series, span: Span, only: Collection[str] | None) -> Answer:
    """What changed in each step, by the records as of now; of every participant, or `only` these."""
    results, steps = snapshot.results, span.steps
    zeros = [0] * len(steps)
    totals = {total.source: [zeros] * 3 for total in results.sources}
    for source, cell in zip(INTERNAL_SOURCES, (COUNT, PAID), strict=True):
        totals[source][1:] = series.of(("", ""), (cell + UNIQUE, cell + ANONYMOUS), steps)
    counting = [total.source for total in results.sources if total.is_in_total]
    participants = []
    for key, shown in results.participants.items():
        given = dict(zip(INTERNAL_SOURCES, series.of(("", key), (COUNT, PAID), steps), strict=True))
        for source, column in given.items():
            totals[source][COUNT] = _plus(totals[source][COUNT], column)
        for source, _, mapped_id in shown:
            if mapped_id is not None:
                more = series.of((source, mapped_id), (COUNT, UNIQUE, ANONYMOUS), steps)
                given[source] = _plus(given.get(source, zeros), more[COUNT])
                totals[source] = [_plus(*each) for each in zip(totals[source], more, strict=True)]
        if only is None or key in only:
            count = _plus(*(column for source, column in given.items() if source in counting))
            by_source = [{"source": source, "count": column} for source, column in given.items()]
            participants.append({"participant_key": key, "count": count, "sources": by_source})
    external = [totals[source] for source in counting if source not in INTERNAL_SOURCES]
    unique, anonymous = series.of(("", ""), (BOTH_UNIQUE, BOTH_ANONYMOUS), steps)
    made: dict[str, Any] = {
        "contest_key": snapshot.contest.key,
        "interval": span.interval,
        "from": _time(span, steps.start),
        "to": _time(span, steps.stop),
        "updated": updated(snapshot),
        "participants": participants,
        "count": _plus(*(totals[source][COUNT] for source in counting)),
        "unique_voter_count": _plus(unique, *(columns[UNIQUE] for columns in external)),
        "anonymous_voter_count": _plus(anonymous, *(columns[ANONYMOUS] for columns in external)),
        "sources": [
            {
                "source": total.source,
                "title": total.title,
                "is_in_total": total.is_in_total,
                "is_internal": total.source in INTERNAL_SOURCES,
                **dict(zip(NUMBERS, totals[total.source], strict=True)),
            }
            for total in results.sources
        ],
    }
    return answer_of(snapshot, made)


def _plus(*columns: list[int]) -> list[int]:
    return list(map(sum, zip(*columns, strict=True)))


def _time(span: Span, step: int) -> str | None:
    return timestamp(step * span.interval * MILLION)
