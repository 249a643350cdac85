"""`GET /contests/<key>/timeline`: the changes of a contest's counts over time."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from typing import Annotated, Any, Final, NamedTuple
from weakref import WeakValueDictionary

from fastapi import APIRouter, Depends, Query
from pydantic import BeforeValidator, WithJsonSchema
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.position_token import PositionTokens
from libs.contracts.validation import Problem, ValidationFailed
from libs.results.contest_results import INTERNAL_SOURCES, Results
from libs.tally.contest import MILLION, Phase
from libs.tally.time_conversion import microseconds, parse_timestamp, timestamp
from libs.web.documents.openapi import UNCHANGED, problems
from libs.web.door.auth import Authenticator
from libs.web.door.typed_routes import IfNoneMatch, Permitted, TypedRoute
from services.query.count_answers import answer_of, last_update
from services.query.counts_snapshot import Snapshot
from services.query.encoded_response import EncodedResponse
from services.query.response_models import COUNT_HEADERS, TimelineRecord
from services.query.snapshot_cache import SnapshotCache, now
from services.query.timeline_cache import (
    ANONYMOUS,
    BOTH_UNIQUE,
    COUNT,
    PAID,
    RATING_SUM,
    RATINGS,
    UNIQUE,
    Cells,
    Series,
    Subject,
    TimelineCache,
)

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


def width(results: Results, kind: str) -> int:
    """Return the count of numbers in each step of a contest of this type."""
    own = 3 if kind == "rating" else 1
    entries = (own + len({source for source, *_ in shown}) for shown in results.participants.values())
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
        self._ratings: list[tuple[dict[str, Any], Column]] = []
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
        for rating, column in self._ratings:
            rating["sum"] = [total / MILLION for total in column]
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
                entry: dict[str, Any] = {"participant_key": key, "count": count, "sources": by_source}
                if self._snapshot.contest.contest_type == "rating":
                    entry["rating"] = self._rating(key)
                participants.append(entry)
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

    def _rating(self, key: str) -> dict[str, Any]:
        count, total = self._zeros(), self._zeros()
        self._columns["", key] += [(count, RATINGS), (total, RATING_SUM)]
        rating = {"count": count}
        self._ratings.append((rating, total))
        return rating

    def _zeros(self) -> Column:
        self.size += POINTER * len(self._steps)
        return [0] * len(self._steps)

    def _numbers(self) -> dict[str, Column]:
        return {name: self._zeros() for name in NUMBERS}

    def _fill(self, subject: Subject, columns: dict[str, Column], numbers: Iterable[int], first: int) -> None:
        self._columns[subject] += [(columns[NUMBERS[number]], first + number) for number in numbers]


MINUTE_S: Final = 60
DAY_S: Final = 86_400
INTERVALS: Final = (60, 300, 900, 3_600, 21_600, DAY_S)
"""Default intervals in seconds; the shortest that fits is used."""
MOST_INTERVALS: Final = 1_500
MOST_NUMBERS: Final = 1_000_000
"""Numbers in one response: some 3 MB, built in 0.1 s."""
LOAD: Final = 20
"""A response that took t to build is served for LOAD * t: a contest's timelines take 5 % of a process."""
MOST_HELD_S: Final = 1.0
MOST_KEPT: Final = 100
MOST_BYTES: Final = 50_000_000
"""Size of the responses cached in a process, with their columns."""
YEARS: Final = range(2, 9999)
"""Accepted years: whole intervals around any time in them are valid dates."""


def _seconds(given: str) -> int:
    """Return the seconds since 1970 of an RFC 3339 time."""
    moment = parse_timestamp(given)
    if moment.year not in YEARS:
        raise ValueError("must be in the years from 0002 to 9998")
    return microseconds(moment) // MILLION


Interval = Annotated[
    int | None,
    Query(
        description="Seconds, a multiple of 60. By default the shortest of 60, 300, 900, 3600, 21600 and 86400 "
        "with which the response has at most 1500 intervals and a million numbers.",
        ge=MINUTE_S,
        le=DAY_S,
        multiple_of=MINUTE_S,
    ),
]
From = Annotated[
    int | None,
    BeforeValidator(_seconds),
    Query(
        alias="from",
        description="An RFC 3339 time in the first interval. By default the first change of the counts or, before "
        "one, the contest's start; if that is too long for a response, only the last days.",
    ),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
To = Annotated[
    int | None,
    BeforeValidator(_seconds),
    Query(
        description="An RFC 3339 time in the last interval or at its end. By default now; for a finished contest "
        "its end or, if later, the last change of its counts.",
    ),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Only = Annotated[
    list[str] | None, Query(description="List only these participants, if approved; the totals include all.")
]


class TimelineQuery(NamedTuple):
    """Intervals and times in seconds since 1970; None is the default."""

    interval: int | None
    begin: int | None
    end: int | None


class CachedTimeline(NamedTuple):
    """A cached response, built from a snapshot and served until `until` (loop time) even if votes came in."""

    snapshot: Snapshot
    page: TimelinePage
    answer: EncodedResponse
    until: float

    @property
    def size(self) -> int:
        """Memory in bytes."""
        return self.page.size + len(self.answer.body)


class ContestTimeline:
    """Serves the timelines of contests. Concurrent requests for the same one share the work."""

    def __init__(self, snapshots: SnapshotCache, timelines: TimelineCache) -> None:
        self._snapshots = snapshots
        self._timelines = timelines
        self._locks = WeakValueDictionary[tuple[str, int], asyncio.Lock]()
        self._made = OrderedDict[tuple[str, str, TimeSpan, frozenset[str] | None], CachedTimeline]()

    async def read(
        self, key: ApiKey, contest: str, asked: TimelineQuery, only: frozenset[str] | None
    ) -> EncodedResponse:
        """Return the timeline. Raises `NotFound`, `ResultsHidden`, `ValidationFailed` and `ViewsUnavailable`."""
        present = await self._visible(key, contest)
        span = span_of(asked, present, await self._timelines.first_minute(present))
        async with self._locks.setdefault((contest, span.interval), asyncio.Lock()):
            # read again: another request may have updated the series meanwhile
            return await self._answer(await self._visible(key, contest), span, only)

    async def _visible(self, key: ApiKey, contest: str) -> Snapshot:
        snapshot = await self._snapshots.get(key.account, contest)
        snapshot.check_visible(key.permissions)
        return snapshot

    async def _answer(self, present: Snapshot, span: TimeSpan, only: frozenset[str] | None) -> EncodedResponse:
        loop = asyncio.get_running_loop()
        began = loop.time()
        name = present.account, present.contest.key, span, only
        made = self._made.pop(name, None)
        if made is None or not _holds(made, present, began):
            minutes = span.interval // MINUTE_S
            begin, end = span.steps.start * minutes, span.steps.stop * minutes
            series = await self._timelines.series(present, begin, end, minutes)
            if made is None or not made.page.holds(present, series):
                page = await asyncio.to_thread(TimelinePage, present, series, span, only)
            else:
                page = made.page
            answer = await asyncio.to_thread(page.answer, present, series)
            ended = loop.time()
            made = CachedTimeline(present, page, answer, ended + min(LOAD * (ended - began), MOST_HELD_S))
        self._made[name] = made
        while len(self._made) > 1 and (
            len(self._made) > MOST_KEPT or sum(each.size for each in self._made.values()) > MOST_BYTES
        ):
            self._made.popitem(last=False)
        return made.answer


def _holds(made: CachedTimeline, present: Snapshot, at: float) -> bool:
    if made.snapshot is present:
        return True
    same = made.snapshot.config is present.config and made.snapshot.phase is present.phase
    return same and at < made.until


def span_of(asked: TimelineQuery, present: Snapshot, first_minute: int | None) -> TimeSpan:
    """Return the requested span. Defaults: from the first change, if that fits, until now or the contest's end.

    The default includes changes after the end. Raises `ValidationFailed` if the response would be too large.
    """
    end = asked.end
    if end is None:
        until = present.contest.end if present.phase is Phase.FINISHED else None
        latest_ms = present.counts.updated_ms or 0
        end = max((now() if until is None else until) // MILLION, latest_ms // 1000, asked.begin or 0) + 1
    begin = asked.begin
    if begin is None:
        start = present.contest.start
        shown = first_minute * MINUTE_S if first_minute is not None else (start or now()) // MILLION
        begin = min(shown, end - 1)
    most = min(MOST_INTERVALS, MOST_NUMBERS // width(present.results, present.contest.contest_type))
    for interval in INTERVALS if asked.interval is None else (asked.interval,):
        span = TimeSpan(interval, range(begin // interval, -(-end // interval)))
        if len(span.steps) <= most:
            return span
    if asked.begin is None and asked.interval is None and most:
        return TimeSpan(DAY_S, span.steps[-most:])
    raise ValidationFailed(
        [
            Problem(
                "",
                f"from, to and interval result in {len(span.steps)} intervals, more than the {most} allowed for "
                f"this contest: request a longer interval or a shorter period",
            )
        ]
    )


def timeline_router(auth: Authenticator, timelines: ContestTimeline, positions: PositionTokens) -> APIRouter:
    """Build the route of the counts over time, for charts."""
    router = APIRouter(tags=["results"], route_class=TypedRoute)
    Reader = Annotated[ApiKey, Depends(Permitted(auth, "results:read"))]

    @router.get(
        "/contests/{contest_key}/timeline",
        response_model=TimelineRecord,
        responses={
            200: {"description": "The changes.", "headers": COUNT_HEADERS},
            **UNCHANGED,
            **problems("results_hidden", "not_found"),
        },
        summary="Read a contest's vote counts over time",
    )
    async def get_timeline(
        caller: Reader,
        contest_key: str,
        interval: Interval = None,
        begin: From = None,
        to: To = None,
        participant: Only = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Returns the changes of the contest's counts in each interval, by the time of appending to the log.

        Includes new events within a second. While the counts are hidden, `results:read_hidden` is also needed.
        """
        if begin is not None and to is not None and begin >= to:
            raise ValidationFailed([Problem("", "from must be before to", "from")])
        only = None if participant is None else frozenset(participant)
        answer = await timelines.read(caller, contest_key, TimelineQuery(interval, begin, to), only)
        await positions.load()
        position = b"tally-position", positions.encode(answer.positions).encode()
        status, headers, body = answer.reply(if_none_match, [position])
        response = Response(body, status)
        response.raw_headers = headers
        return response

    return router
