"""`GET /contests/<key>/timeline`: the changes of a contest's counts over time, as bare ASGI."""

import asyncio
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs
from weakref import WeakValueDictionary

from starlette.types import Receive, Scope, Send

from libs.contracts.position_token import PositionTokens
from libs.contracts.validation import Problem, ValidationFailed
from libs.results.contest_results import INTERNAL_SOURCES, Results
from libs.tally.contest import MILLION, Phase
from libs.tally.time_conversion import microseconds, parse_timestamp, timestamp
from libs.web.door.auth import ApiKey, Authenticator, header, require
from libs.web.door.query_parameters import cached_by_query
from libs.web.responses import send_whole
from services.query.counts_snapshot import EncodedResponse, Snapshot
from services.query.snapshot_cache import SnapshotCache, now
from services.query.timeline_cache import (
    ANONYMOUS,
    BOTH_UNIQUE,
    COUNT,
    PAID,
    UNIQUE,
    Cells,
    Series,
    Subject,
    TimelineCache,
)
from services.query.vote_updates import answer_of, last_update

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


class TimelineQuery(NamedTuple):
    """The query parameters: intervals and times in seconds since 1970, participants' keys; None is the default."""

    interval: int | None
    begin: int | None
    end: int | None
    participants: frozenset[str] | None


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

    def __init__(
        self, auth: Authenticator, snapshots: SnapshotCache, timelines: TimelineCache, positions: PositionTokens
    ) -> None:
        self._auth = auth
        self._positions = positions
        self._snapshots = snapshots
        self._timelines = timelines
        self._locks = WeakValueDictionary[tuple[str, int], asyncio.Lock]()
        self._made = OrderedDict[tuple[str, str, TimeSpan, frozenset[str] | None], CachedTimeline]()

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        key = self._auth.known(scope) or await self._auth.authenticate(scope)
        require(key, "results:read")
        asked = parse(scope["query_string"])
        await self._positions.load()
        contest = scope["path_params"]["contest_key"]
        present = await self._visible(key, contest)
        span = span_of(asked, present, await self._timelines.first_minute(present))
        async with self._locks.setdefault((contest, span.interval), asyncio.Lock()):
            # read again: another request may have updated the series meanwhile
            present = await self._visible(key, contest)
            answer = await self._answer(present, span, asked.participants)
        position = b"tally-position", self._positions.encode(answer.positions).encode()
        await send_whole(send, *answer.whole(header(scope["headers"], b"if-none-match"), [position]))

    async def _visible(self, key: ApiKey, contest: str) -> Snapshot:
        """Return the contest's snapshot. Raises `NotFound`, `ResultsHidden` and `ViewsUnavailable`."""
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


@cached_by_query
def parse(query: bytes) -> TimelineQuery:
    """Parse the query; ignores unknown parameters. Raises `ValidationFailed` with the parameter's name."""
    given = parse_qs(query.decode("latin-1"), keep_blank_values=True)
    begin, end = (_seconds(name, given[name][-1]) if name in given else None for name in ("from", "to"))
    if begin is not None and end is not None and begin >= end:
        raise ValidationFailed([Problem("", "from must be before to", "from")])
    interval = None
    if "interval" in given:
        text = given["interval"][-1]
        interval = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
        if interval % MINUTE_S or not MINUTE_S <= interval <= DAY_S:
            raise ValidationFailed(
                [Problem("", "interval must be a multiple of 60 (seconds), up to 86400", "interval")]
            )
    return TimelineQuery(interval, begin, end, frozenset(given["participant"]) if "participant" in given else None)


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
    most = min(MOST_INTERVALS, MOST_NUMBERS // width(present.results))
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


def _seconds(name: str, given: str) -> int:
    try:
        moment = parse_timestamp(given)
    except ValueError as error:
        raise ValidationFailed([Problem("", f"{name} {error}", name)]) from error
    if moment.year not in YEARS:
        raise ValidationFailed([Problem("", f"{name} must be in the years from 0002 to 9998", name)])
    return microseconds(moment) // MILLION
