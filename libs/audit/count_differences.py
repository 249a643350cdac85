"""Compares a view's state and counts with a fold, both as flat tables of values."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from libs.audit.balance_equations import OUTCOMES
from libs.audit.difference import Difference
from libs.audit.hash_fields import tally_of
from libs.audit.log_fold import LogFold
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.fold import ContestTally
from libs.views.reply_types import ContestCounts, PartitionState
from libs.views.serialization import SOURCES


class CountPlace(NamedTuple):
    """The place of a value; `participant` and `source` are "" for the contest."""

    label: str
    participant: str = ""
    source: str = ""


EMPTY: Final[dict[str, Any]] = {"ratings": RatingSums(), "figures": {}, "figures held": {}}
"""Values of absent places by label; others are 0."""


def state_differences(fold: LogFold, state: PartitionState) -> Iterator[Difference]:
    """Compare the fence and the numbers of records without effect."""
    log = {CountPlace(name): getattr(fold.tally, name) for name in ("fence", "fenced", "duplicates", "overruled")}
    log[CountPlace("quarantined")] = fold.quarantined
    return _differences(fold, "", log, {place: getattr(state, place.label) for place in log})


def counts_differences(fold: LogFold, contest: str, counts: ContestCounts) -> Iterator[Difference]:
    """Compare counts, distinct and anonymous voters by participant and source, and the contest's own row."""
    tally = tally_of(fold, contest)
    figures = dict(tally.figures)
    for participant in {participant for participant, _ in figures}:
        votes = sum(tally.figures.get((participant, source), VoteSums()).count for source in SOURCES)
        voters = tally.figures.get((participant, ""), VoteSums())
        figures[participant, ""] = VoteSums(votes, voters.unique, voters.anonymous)  # the tally has only voters
    log = _table(tally, figures, tally.last_offset, tally.last_time_ms)
    view = _table(counts, counts.figures, counts.changed, counts.updated_ms or 0)
    return _differences(fold, contest, log, view)


def _table(
    counts: ContestTally | ContestCounts, figures: Mapping[tuple[str, str], VoteSums], offset: int, time_ms: int
) -> dict[CountPlace, Any]:
    table: dict[CountPlace, Any] = {}
    for (participant, source), sums in figures.items():
        table[CountPlace("votes", participant, source)] = sums.count
        table[CountPlace("unique voters", participant, source)] = sums.unique
        table[CountPlace("anonymous voters", participant, source)] = sums.anonymous
    table |= {CountPlace(f"vote ids {name}"): counts.ids.get(status, 0) for status, name in OUTCOMES.items()}
    table |= {CountPlace("closing in force"): counts.closed, CountPlace("closing reopened last"): counts.reopened}
    table |= {CountPlace("offset of the last change"): offset, CountPlace("time of the last change (ms)"): time_ms}
    table |= {CountPlace("ratings", participant): sums for participant, sums in counts.ratings.items()}
    for source, reported in counts.sources.items():
        table[CountPlace("figures", source=source)] = reported.figures
        table[CountPlace("figures held", source=source)] = reported.held
        table[CountPlace("closing in force", source=source)] = reported.closed
        table[CountPlace("time of the last report (ms)", source=source)] = reported.updated_ms
    return table


def _differences(
    fold: LogFold, contest: str, log: Mapping[CountPlace, Any], view: Mapping[CountPlace, Any]
) -> Iterator[Difference]:
    for place in {**log, **view}:
        expected, actual = (table.get(place, EMPTY.get(place.label, 0)) for table in (log, view))
        if expected != actual:
            where = contest, place.participant, place.source
            yield Difference(fold.partition, place.label, str(expected), str(actual), *where)
