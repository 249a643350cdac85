"""The fold of one partition of the votes log into voters' ledgers and counts.

This is the reference implementation. The Valkey functions in `libs/views/votes` compute the same, which
property tests verify; `tally verify` uses this one. It reads no clock: the same events always give the same tally.
"""

from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from operator import itemgetter
from typing import assert_never

from libs.tally.counts import RatingSums, VoteSums, one_value
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
    VoteRemoved,
    VoteRestored,
    VoteVoided,
)
from libs.tally.sources import SourceTally
from libs.tally.voter_ledger import FoldedVote, VoterLedger, VoteStatus


@dataclass(slots=True)
class ContestTally:
    """One contest in one partition. Each voter belongs to one partition, so sums over partitions are exact.

    `figures` is keyed by (participant or "" for the contest, source or "" for both), `ratings` by participant or
    "". `closed` is the number of the closing in force, negative while it is being reopened; `reopened` is the
    latest one cancelled. Changes after the close wait, by (voter, vote id): removals in `waiting`, voidings and
    restorings in `waiting_voids`. `touched` collects participants whose votes changed, until a caller clears it.
    """

    voters: dict[str, VoterLedger] = field(default_factory=dict)
    figures: dict[tuple[str, str], VoteSums] = field(default_factory=dict)
    ratings: dict[str, RatingSums] = field(default_factory=dict)
    ids: Counter[VoteStatus] = field(default_factory=Counter)
    sources: dict[str, SourceTally] = field(default_factory=dict)
    closed: int = 0
    reopened: int = 0
    waiting: dict[tuple[str, str], tuple[VoteRemoved, int]] = field(default_factory=dict)
    waiting_voids: dict[tuple[str, str], list[tuple[VoteVoided | VoteRestored, int]]] = field(default_factory=dict)
    last_offset: int = -1
    last_time_ms: int = 0
    touched: set[str] = field(default_factory=set, compare=False)

    def at(self, participant: str, source: str) -> VoteSums:
        return self.figures.setdefault((participant, source), VoteSums())

    def ledger_of(self, event: VoteCast | VoteRemoved) -> VoterLedger:
        return self.voters.setdefault(event.voter, VoterLedger(event.anonymous))

    def cast(self, cast: VoteCast, offset: int) -> bool:
        """Fold a vote; False for a vote id that was used before."""
        ledger = self.ledger_of(cast)
        if cast.vote_id in ledger.votes:
            return False
        ledger.anchor(cast)
        former = None if self.closed else ledger.holder(cast)
        vote = FoldedVote(cast, offset, VoteStatus.COUNTED, cast.epoch)
        if self.closed:
            vote.status = VoteStatus.LATE
        elif former is not None:
            counted = former.status is VoteStatus.COUNTED
            vote.epoch = former.epoch
            self._move_choices(ledger, former, -1, -counted)
            self._set(former, VoteStatus.REPLACED)
            self._move_choices(ledger, vote, 1, 1)
            self._move_contest(ledger, vote, 0, not counted)
        elif ledger.admits(cast):
            self._move_choices(ledger, vote, 1, 1)
            self._move_contest(ledger, vote, 1, 1)
        else:
            vote.status = VoteStatus.OVERRULED
        ledger.votes[cast.vote_id] = vote
        self.ids[vote.status] += 1
        if vote.status is VoteStatus.COUNTED and cast.slot is not None:
            ledger.slots[cast.slot, cast.source] = cast.vote_id
        return True

    def remove(self, event: VoteRemoved, offset: int) -> bool:
        """Remove a vote; False if nothing changes. An id that was never cast is used up."""
        ledger = self.ledger_of(event)
        vote = ledger.votes.get(event.vote_id)
        if vote is None:
            ledger.votes[event.vote_id] = FoldedVote(_never_cast(event), offset, VoteStatus.REMOVED)
            self.ids[VoteStatus.REMOVED] += 1
            return True
        if vote.status not in (VoteStatus.COUNTED, VoteStatus.VOIDED):
            return False
        counted = vote.status is VoteStatus.COUNTED
        self._move_choices(ledger, vote, -1, -counted)
        self._move_contest(ledger, vote, -1, -counted)
        self._set(vote, VoteStatus.REMOVED)
        ledger.free_slot(vote.cast)
        return True

    def void(self, event: VoteVoided | VoteRestored) -> bool:
        """Void or restore a vote; False if nothing changes. Its allowance stays used.

        An operation voids a vote once, and restores only votes that it voided itself: so a late copy of either
        record does not revert newer decisions.
        """
        ledger = self.voters.get(event.voter)
        vote = None if ledger is None else ledger.votes.get(event.vote_id)
        if ledger is None or vote is None:
            return False
        if isinstance(event, VoteVoided):
            if vote.status is not VoteStatus.COUNTED or any(its.void == event.void for its in vote.voids):
                return False
            vote.voids, vote.void, after, by = (*vote.voids, event), event.void, VoteStatus.VOIDED, -1
        else:
            if vote.status is not VoteStatus.VOIDED or vote.void != event.void:
                return False
            vote.void, after, by = None, VoteStatus.COUNTED, 1
        self._move_choices(ledger, vote, 0, by)
        self._move_contest(ledger, vote, 0, by)
        self._set(vote, after)
        return True

    def void_later(self, event: VoteVoided | VoteRestored, offset: int) -> bool:
        """Store a voiding or restoring after the close; False for one that waits already."""
        waiting = self.waiting_voids.setdefault((event.voter, event.vote_id), [])
        if any((known.type, known.void) == (event.type, event.void) for known, _ in waiting):
            return False
        waiting.append((event, offset))
        return True

    def wait(self, event: VoteRemoved, offset: int) -> bool:
        """Store a removal after the close; False for one that waits already."""
        known = self.waiting.setdefault((event.voter, event.vote_id), (event, offset))
        return known[1] == offset

    def close(self, event: ContestClosed) -> bool:
        """Apply a close marker; False for one that was applied or cancelled before."""
        if event.seq <= self.reopened:
            return False
        where = self if event.source is None else self.sources.setdefault(event.source, SourceTally())
        if abs(where.closed) >= event.seq:
            return False
        where.closed = event.seq
        return True

    def reopen(self, event: ContestReopened) -> bool:
        """Apply up to `at_most` waiting changes and reopen when none is left; False for a duplicate."""
        if event.seq <= self.reopened:
            return False
        if abs(self.closed) <= event.seq:
            self._apply_waiting(event.at_most)
            if self.waiting or self.waiting_voids:
                self.closed = -abs(self.closed)
                return True
            self.closed = 0
        self.reopened = event.seq
        for source in self.sources.values():
            source.closed = source.closed if source.closed > event.seq else 0
        return True

    def _apply_waiting(self, at_most: int | None) -> None:
        waited = [*self.waiting.values(), *chain.from_iterable(self.waiting_voids.values())]
        for late, offset in nsmallest(len(waited) if at_most is None else at_most, waited, itemgetter(1)):
            name = late.voter, late.vote_id
            if isinstance(late, VoteRemoved):
                del self.waiting[name]
                self.remove(late, offset)
            else:
                self.waiting_voids[name].pop(0)
                if not self.waiting_voids[name]:
                    del self.waiting_voids[name]
                self.void(late)

    def _set(self, vote: FoldedVote, status: VoteStatus) -> None:
        self.ids[vote.status] -= 1
        self.ids[status] += 1
        vote.status = status

    def _move_choices(self, ledger: VoterLedger, vote: FoldedVote, used: int, active: int) -> None:
        """Add the vote's choices to the used and the counted votes (1 each), or subtract them (-1)."""
        cast = vote.cast
        for participant, count in cast.choices:
            self.touched.add(participant)
            self._move(ledger, vote, participant, used * count, active * count)
            self.at(participant, cast.source).count += active * count
            self.at("", cast.source).count += active * count
        if active:
            self._rate(cast, active)

    def _move_contest(self, ledger: VoterLedger, vote: FoldedVote, used: int, active: int) -> None:
        """Do the same for the contest, with the vote's weight."""
        self._move(ledger, vote, "", used * vote.cast.weight, active * vote.cast.weight)

    def _move(self, ledger: VoterLedger, vote: FoldedVote, participant: str, votes: int, active: int) -> None:
        """Use or give back an allowance, and count the voter if this is the first or last counted vote."""
        source = vote.cast.source
        limit = vote.cast.max_participant if participant else vote.cast.max_contest
        sums = ledger.sums(participant, source, vote.epoch)
        voted = sums.active > 0
        sums.move(votes, active, limit)
        change = (sums.active > 0) - voted
        for name in (source, ""):
            figures = self.at(participant, name)
            if change and not ledger.voted(participant, name or None, besides=sums):
                figures.unique += change
                figures.anonymous += change * ledger.anonymous

    def _rate(self, cast: VoteCast, by: int) -> None:
        if cast.rating is not None:
            subs = {name: (1, value) for name, value in cast.rating.sub_ratings}
            sums = RatingSums(1, cast.rating.value, subs, one_value(cast.rating.value))
            for participant in ("", cast.choices[0][0]):
                before = self.ratings.get(participant, RatingSums())
                self.ratings[participant] = before + (sums if by > 0 else -sums)


@dataclass(slots=True)
class PartitionTally:
    """The fold of one partition. `fenced` and `duplicates` count records that changed nothing."""

    fence: int = 0
    contests: dict[str, ContestTally] = field(default_factory=dict)
    fenced: int = 0
    duplicates: int = 0

    @property
    def overruled(self) -> int:
        return sum(contest.ids[VoteStatus.OVERRULED] for contest in self.contests.values())

    def evolve(self, event: Event, offset: int, time_ms: int) -> None:
        """Fold one event in place; `time_ms` is the broker's append time."""
        match event:
            case LogCreated() | LogLost():
                return
            case Fence():
                if event.incarnation > self.fence and event.after in (None, self.fence):
                    self.fence = event.incarnation
                return
            case VoteCast() | VoteRemoved() if event.incarnation < self.fence:
                self.fenced += 1
                return
        contest = self.contests.setdefault(event.contest, ContestTally())
        if _changes(contest, event, offset, time_ms):
            contest.last_offset = offset
            contest.last_time_ms = max(contest.last_time_ms, time_ms)
        else:
            self.duplicates += 1


def _changes(contest: ContestTally, event: ContestEvent, offset: int, time_ms: int) -> bool:
    """Fold `event` into its contest; False if it changes nothing."""
    match event:
        case VoteCast():
            return contest.cast(event, offset)
        case VoteRemoved():
            return contest.wait(event, offset) if contest.closed else contest.remove(event, offset)
        case VoteVoided() | VoteRestored():
            return contest.void_later(event, offset) if contest.closed else contest.void(event)
        case SourceReported():
            return contest.sources.setdefault(event.source, SourceTally()).take(event, offset, time_ms)
        case ContestClosed():
            return contest.close(event)
        case ContestReopened():
            return contest.reopen(event)
    assert_never(event)


def _never_cast(event: VoteRemoved) -> VoteCast:
    """Return the ledger's placeholder for a vote id that was removed before it was cast."""
    return VoteCast(
        contest=event.contest,
        voter=event.voter,
        anonymous=event.anonymous,
        vote_id=event.vote_id,
        content=event.content,
        source=event.source,
        choices=(),
        accepted_at=event.removed_at,
        incarnation=event.incarnation,
        config=0,
        max_participant=0,
        max_contest=0,
        epoch=0,
        remaining_participant=None,
        remaining_contest=None,
        next_free_vote_at=None,
        receipt="",
    )
