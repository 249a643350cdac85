"""A contest's events one by one: the outcome of each, and the counts before and after it."""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal, assert_never

from libs.audit.log_fold import is_foldable
from libs.audit.partition_merge import MergedRecord
from libs.contracts.codec import Undecodable
from libs.results.contest_results import INTERNAL_SOURCES
from libs.tally.counts import VoteSums
from libs.tally.events import (
    ContestClosed,
    ContestEvent,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
    LogLost,
    SourceReported,
    VoteCast,
    VoteEvent,
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.fold import ContestTally, PartitionTally
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import FoldedVote, VoterLedger, VoteStatus

Outcome = Literal[
    "counted", "overruled", "late", "removed", "used up", "voided", "restored", "waits", "taken over", "held",
    "closed", "reopened", "fenced", "duplicate", "quarantined",
]  # fmt: skip
"""`used up`: removed before it was cast; `waits`: for a reopening; `held`: decreases of a report."""


@dataclass(frozen=True, slots=True)
class VoteEffect:
    """Votes before and after: `total` of the contest, and `parts` by participant, of any status, from internal
    sources only.

    For a report, `total` is the source's and `parts` are by the source's own ids.
    """

    total: tuple[int, int]
    parts: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class HistoryStep:
    """One folded event. `replaced` is the replaced vote's id, `held` are ids of the external source.

    `partition` is the change of the counts in the event's partition, `contest` in all folded partitions.
    """

    entry: MergedRecord[Event]
    event: ContestEvent
    outcome: Outcome
    replaced: str | None
    held: tuple[str, ...]
    partition: VoteEffect
    contest: VoteEffect


class History:
    """Folds the partitions of one contest; events are given in display order."""

    def __init__(self, contest: str, partitions: Collection[int]) -> None:
        self._contest = contest
        self._tallies = {partition: PartitionTally() for partition in partitions}
        self._sums: Counter[str] = Counter()

    def take(self, entry: MergedRecord[Event]) -> HistoryStep | None:
        """Fold an entry; None if it is not of this contest."""
        event, tally = entry.event, self._tallies[entry.partition]
        if isinstance(event, Undecodable) or getattr(event, "contest", self._contest) != self._contest:
            return None
        foldable = is_foldable(event)
        if isinstance(event, LogCreated | LogLost | Fence):
            if foldable:
                tally.evolve(event, entry.record.offset, entry.record.timestamp_ms)
            return None
        contest = tally.contests.get(self._contest, ContestTally())
        former = _former(contest, event) if foldable else None
        names = _names(contest, event, former) if foldable else [""]
        before = _counts(contest, event, names)
        outcome = _fold(tally, event, entry) if foldable else "quarantined"
        contest = tally.contests.get(self._contest, contest)
        after = _counts(contest, event, names)
        own = {name: (before[name], after[name]) for name in names}
        took = isinstance(event, VoteCast) and outcome == "counted" and former is not None
        return HistoryStep(
            entry=entry,
            event=event,
            outcome=outcome,
            replaced=former.cast.vote_id if took and former is not None else None,
            held=_held(contest, event) if outcome == "held" else (),
            partition=_change(own),
            contest=_change(own if isinstance(event, SourceReported) else self._add(own)),
        )

    def _add(self, own: Mapping[str, tuple[int, int]]) -> dict[str, tuple[int, int]]:
        whole = {
            name: (self._sums[name], self._sums[name] + after - before) for name, (before, after) in own.items()
        }
        self._sums.update({name: after - before for name, (before, after) in own.items()})
        return whole


def _fold(tally: PartitionTally, event: ContestEvent, entry: MergedRecord[Event]) -> Outcome:
    fenced, duplicates, offset = tally.fenced, tally.duplicates, entry.record.offset
    tally.evolve(event, offset, entry.record.timestamp_ms)
    if tally.fenced > fenced:
        return "fenced"
    if tally.duplicates > duplicates:
        return "duplicate"
    return _outcome(tally.contests[event.contest], event)


def _outcome(contest: ContestTally, event: ContestEvent) -> Outcome:
    """Return the outcome of an event that changed something."""
    match event:
        case VoteCast():
            return _CAST[contest.voters[event.voter].votes[event.vote_id].status]
        case VoteRemoved() | VoteVoided() | VoteRestored() if contest.closed:
            return "waits"
        case VoteVoided():
            return "voided"
        case VoteRestored():
            return "restored"
        case VoteRemoved():
            return "removed" if contest.voters[event.voter].votes[event.vote_id].cast.choices else "used up"
        case SourceReported():
            report = contest.sources[event.source].reports[event.report_id]
            return "late" if report.late else "held" if report.held else "taken over"
        case ContestClosed():
            return "closed"
        case ContestReopened():
            return "reopened"
    assert_never(event)


_CAST: Mapping[VoteStatus, Outcome] = {
    VoteStatus.COUNTED: "counted",
    VoteStatus.OVERRULED: "overruled",
    VoteStatus.LATE: "late",
}


def _former(contest: ContestTally, event: ContestEvent) -> FoldedVote | None:
    """Return the vote that the event would replace, remove, void or restore."""
    if not isinstance(event, VoteEvent):
        return None
    ledger = contest.voters.get(event.voter, VoterLedger())
    return ledger.holder(event) if isinstance(event, VoteCast) else ledger.votes.get(event.vote_id)


def _names(contest: ContestTally, event: ContestEvent, former: FoldedVote | None) -> list[str]:
    """Return the names whose counts the event may change; "" is the contest or the source."""
    names = {participant for participant, _ in former.cast.choices} if former is not None else set()
    match event:
        case VoteCast():
            names |= {participant for participant, _ in event.choices}
        case SourceReported():
            source = contest.sources.get(event.source, SourceTally())
            # `allow_decrease` applies to all held ids
            names = {mapped_id for mapped_id, *_ in event.counts} | (
                source.held.keys() if event.allow_decrease else set()
            )
        case ContestReopened():
            waiting = (
                contest.voters[voter].votes.get(name)
                for voter, name in {*contest.waiting, *contest.waiting_voids}
                if voter in contest.voters
            )
            names = {participant for vote in waiting if vote is not None for participant, _ in vote.cast.choices}
    return ["", *sorted(names)]


def _counts(contest: ContestTally, event: ContestEvent, names: Collection[str]) -> dict[str, int]:
    if isinstance(event, SourceReported):
        figures = contest.sources.get(event.source, SourceTally()).figures
        total = sum(each.count for each in figures.values())
        return {name: figures.get(name, VoteSums()).count if name else total for name in names}
    return {
        name: sum(contest.figures.get((name, source), VoteSums()).count for source in INTERNAL_SOURCES)
        for name in names
    }


def _held(contest: ContestTally, event: ContestEvent) -> tuple[str, ...]:
    return contest.sources[event.source].reports[event.report_id].held if isinstance(event, SourceReported) else ()


def _change(counts: Mapping[str, tuple[int, int]]) -> VoteEffect:
    return VoteEffect(counts[""], {name: pair for name, pair in counts.items() if name})
