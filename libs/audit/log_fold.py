"""Independent fold of one partition of the votes log, which stops at exact offsets, and its timeline."""

import gc
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import astuple, dataclass, field
from typing import Final

from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord, about
from libs.contracts.topics import Log
from libs.kafka.reader import Extent, LogReader
from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import ContestClosed, Event, Fence, SourceReported, VoteCast, VoteRemoved
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.voter_ledger import VoterLedger, VoteStatus
from libs.views.votes.reply_types import SourceFigures, SourceRow
from libs.views.votes.serialization import SOURCES
from libs.views.votes.timeline import MINUTE_MS, PastRow
from libs.views.votes.votes_apply_items import POISON, fold_item

VoterAndId = tuple[str, str]
"""(voter, vote id)"""

UNNAMED: Final = ""


@dataclass(slots=True)
class VoteIds:
    """The vote ids of one partition's log, by contest: the first unfenced cast of each id, or the first unfenced
    removal (with its offset) if no cast came before it.
    """

    casts: defaultdict[str, dict[VoterAndId, VoteCast]] = field(default_factory=lambda: defaultdict(dict))
    removals: defaultdict[str, dict[VoterAndId, tuple[VoteRemoved, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    _fence: int = 0

    def take(self, event: Event, offset: int) -> None:
        match event:
            case Fence() if event.incarnation > self._fence and event.after in (None, self._fence):
                self._fence = event.incarnation
            case VoteCast() if event.incarnation >= self._fence:
                self.casts[event.contest].setdefault((event.voter, event.vote_id), event)
            case VoteRemoved() if event.incarnation >= self._fence:
                if (event.voter, event.vote_id) not in self.casts[event.contest]:
                    self.removals[event.contest].setdefault((event.voter, event.vote_id), (event, offset))

    def of(self, contest: str, tally: ContestTally) -> Iterator[tuple[VoteCast | VoteRemoved, tuple[str, ...]]]:
        """Yield the first use of each id, with the participants that it names.

        Uses the fold only to find out whether a removal before its cast used up the id, or waits for a reopening.
        """
        casts, removals = self.casts[contest], self.removals[contest]
        for name, cast in casts.items():
            if name not in removals or not _is_used_up(tally, name):
                yield cast, tuple(participant for participant, _ in cast.choices)
        for name, (removal, offset) in removals.items():
            waits = name in tally.waiting and tally.waiting[name][1] == offset
            if not waits and (name not in casts or _is_used_up(tally, name)):
                yield removal, (UNNAMED,)


@dataclass(frozen=True, slots=True)
class Difference:
    """A value on which log and view differ; `contest`, `participant` and `source` may be ""."""

    partition: int
    what: str
    log: str
    view: str
    contest: str = ""
    participant: str = ""
    source: str = ""


Subject = tuple[str, ...]
"""("r", participant or "" for the contest), ("s", external source), or ("f", external source, one of its ids)."""
Past = PastRow | SourceRow | SourceFigures


class TimelineFold:
    """Receives every event before and after `tally` applies it."""

    def __init__(self, tally: PartitionTally) -> None:
        self._tally = tally
        self._past: dict[str, dict[Subject, dict[int, Past]]] = {}
        self.releases: defaultdict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        """Minutes in which all held votes were taken over, by contest and external source."""
        self._releases = False

    def before(self, event: Event, time_ms: int) -> None:
        name = getattr(event, "contest", "")
        contest = self._tally.contests.get(name)
        if (
            contest is not None
            and contest.last_offset >= 0
            and time_ms // MINUTE_MS > contest.last_time_ms // MINUTE_MS
        ):
            self._note(name, contest)
        self._releases = isinstance(event, SourceReported) and event.allow_decrease and _holds(contest, event)

    def after(self, event: Event, offset: int) -> None:
        """Note the change: of external sources and ids by the event, of participants by the tally."""
        contest = self._tally.contests.get(getattr(event, "contest", ""))
        if contest is None or contest.last_offset != offset:
            return
        match event:
            case SourceReported() | ContestClosed(source=str()):
                self._note_source(contest, event)
            case VoteCast():
                past = self._past.setdefault(event.contest, {})
                for participant, _ in event.choices:
                    past.setdefault(("r", participant), {})

    def _note_source(self, contest: ContestTally, event: SourceReported | ContestClosed) -> None:
        assert event.source is not None
        source, minute = contest.sources[event.source], contest.last_time_ms // MINUTE_MS
        past, released = self._past.setdefault(event.contest, {}), self.releases[event.contest][event.source]
        if isinstance(event, SourceReported):
            if source.reports[event.report_id].late:
                return
            released += [minute] * self._releases
            for mapped_id, *_ in event.counts:
                held = source.held.get(mapped_id)
                its = SourceFigures(source.figures[mapped_id], minute, held, len(released) if held else 0)
                past.setdefault(("f", event.source, mapped_id), {})[minute] = its
        sizes = len(source.figures), len(source.held), len(released)
        past.setdefault(("s", event.source), {})[minute] = SourceRow(
            source.closed, source.updated_ms, minute, *sizes
        )

    def of(self, name: str) -> Mapping[Subject, Mapping[int, Past]]:
        """Return each row's and source's states by minute: at the end of each minute with a change. The last one
        is open.
        """
        contest = self._tally.contests.get(name)
        if contest is not None and contest.last_offset >= 0:
            self._note(name, contest)
        return self._past.get(name, {})

    def _note(self, name: str, contest: ContestTally) -> None:
        minute, past = contest.last_time_ms // MINUTE_MS, self._past.setdefault(name, {})
        past.setdefault(("r", ""), {})[minute] = _row(contest, "", *_marks(contest))
        for participant in contest.touched:
            past.setdefault(("r", participant), {})[minute] = _row(contest, participant, minute)
        contest.touched.clear()


def _holds(contest: ContestTally | None, event: SourceReported) -> bool:
    source = None if contest is None else contest.sources.get(event.source)
    return source is not None and bool(source.held)


def _row(contest: ContestTally, participant: str, *further: int) -> PastRow:
    free, paid, both = (contest.figures.get((participant, source), VoteSums()) for source in (*SOURCES, ""))
    cells = *astuple(free), *astuple(paid), both.unique, both.anonymous, *further
    return PastRow(cells, contest.ratings.get(participant, RatingSums()))


def _marks(contest: ContestTally) -> list[int]:
    """Return the additional values of the contest's own row."""
    ids = (contest.ids[status] for status in VoteStatus)
    return [contest.last_offset, contest.last_time_ms, *ids, contest.closed, contest.reopened]


SLICE = 2_000
"""Records folded in one go (about 30 ms), before other tasks of the event loop run."""


def _is_used_up(tally: ContestTally, name: VoterAndId) -> bool:
    """Return whether the ledger holds the id as removed before it was cast."""
    voter, vote_id = name
    vote = tally.voters.get(voter, VoterLedger()).votes.get(vote_id)
    return vote is not None and not vote.cast.choices


class LogFold:
    """The fold up to `offset`, of all contests, or of one: then records of others are neither decoded nor counted.

    `reported[contest, source]` is an external source's latest report, by its own ids. `minutes` holds the
    timelines.
    """

    def __init__(self, partition: int, contest: str | None = None) -> None:
        self.partition = partition
        self.contest = contest
        self.offset = 0
        self.tally = PartitionTally()
        self.ids = VoteIds()
        self.quarantined = 0
        self.minutes = TimelineFold(self.tally)
        self.reported: dict[tuple[str, str], dict[str, int]] = {}

    def take(self, records: Sequence[LogRecord]) -> None:
        """Fold the next records, decoded in one batch."""
        some = records if self.contest is None else about(records, self.contest)
        for record, event in zip(some, vote_codec.decode_many([one.value for one in some]), strict=True):
            if isinstance(event, Undecodable) or not is_foldable(event):
                self.quarantined += 1
                continue
            if self.contest is not None and getattr(event, "contest", self.contest) != self.contest:
                continue
            self.ids.take(event, record.offset)
            self.minutes.before(event, record.timestamp_ms)
            self.tally.evolve(event, record.offset, record.timestamp_ms)
            self.minutes.after(event, record.offset)
            if isinstance(event, SourceReported):
                self._note(event, record.offset)
        self.offset = records[-1].offset + 1

    def _note(self, event: SourceReported, offset: int) -> None:
        report = self.tally.contests[event.contest].sources[event.source].reports[event.report_id]
        if report.offset != offset or report.late:
            return
        latest = self.reported.setdefault((event.contest, event.source), {})
        for mapped, count, _, _ in event.counts:
            latest[mapped] = count + (latest.get(mapped, 0) if event.mode == "delta" else 0)


@contextmanager
def without_gc() -> Iterator[None]:
    """Pause the cyclic garbage collector: a fold makes millions of objects without cycles; searching them takes a
    third of the time.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_foldable(event: Event) -> bool:
    """Return whether the projector folds this event; well-formed events that it cannot fold are quarantined."""
    return bool(fold_item(event, 0, 0)[0] != POISON)


async def slices(
    reader: LogReader, topic: Log, partition: int, start: int, end: int
) -> AsyncGenerator[list[LogRecord], None]:
    """Yield the records from `start` up to but excluding `end`, a slice at a time."""
    ranges = {partition: Extent(start, end)}
    async with aclosing(reader.records(topic.name, ranges)) as batches:
        async for _, records in batches:
            for at in range(0, len(records), SLICE):
                yield list(records[at : at + SLICE])


Stop = tuple[int, Callable[[LogFold], None]]
"""An offset, and the function to call when the fold has reached it exactly."""


async def fold_past(
    fold: LogFold, stops: Sequence[Stop], reader: LogReader, topic: Log, advance: Callable[[int], None]
) -> None:
    """Fold up to the last of `stops` (ascending, none before the fold's offset), and call each at its offset."""
    left = list(reversed(stops))
    _act(fold, left)
    if not left:
        return
    async with aclosing(slices(reader, topic, fold.partition, fold.offset, left[0][0])) as pieces:
        async for records in pieces:
            rest = records
            while rest:
                size = min(len(rest), left[-1][0] - fold.offset)
                fold.take(rest[:size])
                rest = rest[size:]
                _act(fold, left)
            advance(len(records))


def _act(fold: LogFold, left: list[Stop]) -> None:
    while left and left[-1][0] == fold.offset:
        left.pop()[1](fold)
