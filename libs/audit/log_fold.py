"""Independent fold of one partition of the votes log, which stops at exact offsets."""

import gc
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from itertools import islice

from libs.audit.balance_equations import VoteIds
from libs.audit.timeline_fold import TimelineFold
from libs.contracts.codec import Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log
from libs.kafka.reader import Extent, LogReader
from libs.tally.events import Event, SourceReported, VoteCast
from libs.tally.fold import PartitionTally
from libs.tally.voter_ledger import FoldedVote
from libs.views.serialization import digest
from libs.views.votes_apply_items import POISON, fold_item

SLICE = 2_000
"""Records folded in one go (about 30 ms), before other tasks of the event loop run."""


class LogFold:
    """The fold up to `offset`, of one contest or of all, with the numbers that the views assign.

    `indexes[contest]` numbers participants from 1 in the order of their first folded vote; `names` lists them in
    this order. `reported[contest, source]` is an external source's latest report, by its own ids. `minutes` holds
    the timelines.
    """

    def __init__(self, partition: int, contest: str | None = None) -> None:
        self.partition = partition
        self._contest = contest
        self.offset = 0
        self.tally = PartitionTally()
        self.ids = VoteIds()
        self.quarantined = 0
        self.indexes: dict[str, dict[str, int]] = {}
        self.names: dict[str, list[str]] = {}
        self.minutes = TimelineFold(self.tally, self.indexes)
        self.reported: dict[tuple[str, str], dict[str, int]] = {}
        self._votes: dict[tuple[str, str], dict[bytes, tuple[int, FoldedVote]]] = {}
        self._ids: dict[tuple[str, str], list[str]] = {}

    def take(self, records: Sequence[LogRecord]) -> None:
        """Fold the next records, decoded in one batch."""
        events = vote_codec.decode_many([record.value for record in records])
        for record, event in zip(records, events, strict=True):
            if isinstance(event, Undecodable) or not is_foldable(event):
                self.quarantined += 1
                continue
            if self._contest is not None and getattr(event, "contest", self._contest) != self._contest:
                continue
            self.ids.take(event, record.offset)
            self.minutes.before(event, record.timestamp_ms)
            self.tally.evolve(event, record.offset, record.timestamp_ms)
            self.minutes.after(event, record.offset)
            if isinstance(event, VoteCast):
                self._number(event, record.offset)
            elif isinstance(event, SourceReported):
                self._note(event, record.offset)
        self.offset = records[-1].offset + 1

    def vote(self, contest: str, voter: str, name: bytes) -> tuple[int, FoldedVote] | None:
        """Return the vote with this digest of its id, and its index among the voter's votes, in log order."""
        tally = self.tally.contests.get(contest)
        ledger = tally.voters.get(voter) if tally is not None else None
        if ledger is None:
            return None
        votes = self._votes.setdefault((contest, voter), {})
        for vote_id, vote in islice(ledger.votes.items(), len(votes), None):
            votes[digest(vote_id)] = len(votes), vote
            self._ids.setdefault((contest, voter), []).append(vote_id)
        return votes.get(name)

    def vote_id(self, contest: str, voter: str, at: int) -> str | None:
        """Return the vote id at an index that `vote` has counted; None before the first."""
        known = self._ids.get((contest, voter), [])
        return known[at] if 0 <= at < len(known) else None

    def _number(self, cast: VoteCast, offset: int) -> None:
        contest = self.tally.contests.get(cast.contest)
        if contest is None or contest.last_offset != offset:
            return
        indexes = self.indexes.setdefault(cast.contest, {})
        for participant, _ in cast.choices:
            if participant not in indexes:
                indexes[participant] = len(indexes) + 1
                self.names.setdefault(cast.contest, []).append(participant)

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
