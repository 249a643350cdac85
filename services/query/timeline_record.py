"""Builds the timeline record of a contest."""

from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple

from libs.results.contest_results import INTERNAL_SOURCES, Results
from libs.tally.contest import MILLION
from libs.tally.time_conversion import timestamp
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse
from services.query.timeline_cache import ANONYMOUS, BOTH_UNIQUE, COUNT, PAID, UNIQUE, Cells, Series, Subject
from services.query.vote_count_record import answer_of, last_update

INTERNAL: Final = dict(zip(INTERNAL_SOURCES, (COUNT, PAID), strict=True))
"""Index of a row's first cell for each internal source."""
Column = list[int]
POINTER: Final = 8
"""Bytes of a list item: small numbers are shared objects."""
NUMBERS: Final = ("count", "unique_voter_count", "anonymous_voter_count")


class TimeSpan(NamedTuple):
    """A range of steps of `interval` seconds, counted since 1970."""

    interval: int
    steps: range


def width(results: Results) -> int:
    """Return the count of numbers in each step."""
    entries = (1 + len({source for source, *_ in shown}) for shown in results.participants.values())
    return sum(entries) + len(NUMBERS) * (1 + len(results.sources))


class TimelinePage:
    """The record of one span with all settled changes; a response only adds the latest ones.

    Uses the current records, of every participant or `only` these. `size` is its memory in bytes.
    """

    def __init__(self, snapshot: Snapshot, series: Series, span: TimeSpan, only: Collection[str] | None) -> None:
        self.size = 0
        self._snapshot = snapshot
        self._version = series.version
        self._steps = span.steps
        self._columns: defaultdict[Subject, list[tuple[Column, int]]] = defaultdict(list)
        self._record = self._made(snapshot.results, span, only)
        for subject, changes in series.settled.items():
            for step, cells in changes.items():
                self._add(subject, step, cells)

    def holds(self, snapshot: Snapshot, series: Series) -> bool:
        """Return whether the page is valid for this snapshot and series."""
        return (
            self._version is series.version
            and self._snapshot.config is snapshot.config
            and len(self._snapshot.results.sources) == len(snapshot.results.sources)
        )

    def answer(self, snapshot: Snapshot, series: Series) -> EncodedResponse:
        """Build the response; `snapshot` is the one that the series, for which it `holds`, was updated to."""
        latest = [*series.latest()]
        for subject, step, cells in latest:
            self._add(subject, step, cells)
        made = answer_of(snapshot, self._record | {"updated": last_update(snapshot)})
        for subject, step, cells in latest:
            self._add(subject, step, [-cell for cell in cells])
        return made

    def _add(self, subject: Subject, step: int, cells: Cells) -> None:
        if step in self._steps:
            at = step - self._steps.start
            for column, cell in self._columns.get(subject, ()):
                column[at] += cells[cell]

    def _made(self, results: Results, span: TimeSpan, only: Collection[str] | None) -> dict[str, Any]:
        """Build the record with zeros, and map each subject's cells to its lists in `_columns`."""
        total = self._numbers()
        sources = {each.source: self._numbers() for each in results.sources}
        self._fill(("", ""), total, (UNIQUE, ANONYMOUS), BOTH_UNIQUE - UNIQUE)
        for source, first in INTERNAL.items():
            self._fill(("", ""), sources[source], (UNIQUE, ANONYMOUS), first)
        counting = {each.source for each in results.sources if each.is_in_total}
        participants = []
        for key, shown in results.participants.items():
            listed = only is None or key in only
            count, given = self._zeros() if listed else [], defaultdict[str, Column](self._zeros)
            for source, _, mapped_id in shown:
                subject, first = (("", key), INTERNAL[source]) if mapped_id is None else ((source, mapped_id), 0)
                numbers = (COUNT,) if mapped_id is None else (COUNT, UNIQUE, ANONYMOUS)
                self._fill(subject, sources[source], numbers, first)
                if source in counting:
                    self._fill(subject, total, numbers, first)
                if listed:
                    columns = [given[source], count] if source in counting else [given[source]]
                    self._columns[subject] += [(column, first) for column in columns]
            if listed:
                by_source = [{"source": source, "count": column} for source, column in given.items()]
                participants.append({"participant_key": key, "count": count, "sources": by_source})
        return {
            "contest_key": self._snapshot.contest.key,
            "interval": span.interval,
            "from": timestamp(span.steps.start * span.interval * MILLION),
            "to": timestamp(span.steps.stop * span.interval * MILLION),
            "updated": None,
            "participants": participants,
            **total,
            "sources": [
                {
                    "source": each.source,
                    "title": each.title,
                    "is_in_total": each.is_in_total,
                    "is_internal": each.source in INTERNAL,
                    **sources[each.source],
                }
                for each in results.sources
            ],
        }

    def _zeros(self) -> Column:
        self.size += POINTER * len(self._steps)
        return [0] * len(self._steps)

    def _numbers(self) -> dict[str, Column]:
        return {name: self._zeros() for name in NUMBERS}

    def _fill(self, subject: Subject, columns: dict[str, Column], numbers: Iterable[int], first: int) -> None:
        self._columns[subject] += [(columns[NUMBERS[number]], first + number) for number in numbers]
