"""The fold of one partition of the votes log: what the events up to a position add up to.

This is the reference. The Valkey functions in `libs/views/lua/votes` compute the same, and property tests hold the
two equal; `tally verify` folds with this one. It reads no clock: the same events give the same tally, always.
"""

from collections import Counter
from dataclasses import dataclass, field
from heapq import nsmallest
from itertools import chain
from operator import itemgetter
from typing import assert_never

from libs.tally.counts import RatingSums, VoteSums
from libs.tally.events import (
    ContestClosed,
    ContestReopened,
    Event,
    Fence,
    LogCreated,
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
    """One contest in one partition. A voter lives in one partition, so sums over partitions are exact.

    `figures` is keyed by (participant or "" for the contest, source or "" for both), `ratings` by participant or
    "". `closed` is the number of the closing in force, less than 0 while it is being reopened, `reopened` the last
    one that was voided. What came after the close waits, by (voter, vote id): removals, and voidings and
    restorings. `touched` names those whose votes changed since somebody last emptied it.
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

    def standing(self, event: VoteCast | VoteRemoved) -> VoterLedger:
        return self.voters.setdefault(event.voter, VoterLedger(event.anonymous))

    def cast(self, cast: VoteCast, offset: int) -> bool:
        """False for an id that was used before."""
        standing = self.standing(cast)
        if cast.vote_id in standing.votes:
            return False
        standing.anchor(cast)
        former = None if self.closed else standing.holder(cast)
        vote = FoldedVote(cast, offset, VoteStatus.COUNTED, cast.epoch)
        if self.closed:
            vote.status = VoteStatus.LATE
        elif former is not None:
            counted = former.status is VoteStatus.COUNTED
            vote.epoch = former.epoch
            self._move_choices(standing, former, -1, -counted)
            self._set(former, VoteStatus.REPLACED)
            self._move_choices(standing, vote, 1, 1)
            self._move_contest(standing, vote, 0, not counted)
        elif standing.admits(cast):
            self._move_choices(standing, vote, 1, 1)
            self._move_contest(standing, vote, 1, 1)
        else:
            vote.status = VoteStatus.OVERRULED
        standing.votes[cast.vote_id] = vote
        self.ids[vote.status] += 1
        if vote.status is VoteStatus.COUNTED and cast.slot is not None:
            standing.slots[cast.slot, cast.source] = cast.vote_id
        return True

    def remove(self, event: VoteRemoved, offset: int) -> bool:
        """False where nothing changes. An id that never came is used up."""
        standing = self.standing(event)
        vote = standing.votes.get(event.vote_id)
        if vote is None:
            standing.votes[event.vote_id] = FoldedVote(_never_cast(event), offset, VoteStatus.REMOVED)
            self.ids[VoteStatus.REMOVED] += 1
            return True
        if vote.status not in (VoteStatus.COUNTED, VoteStatus.VOIDED):
            return False
        counted = vote.status is VoteStatus.COUNTED
        self._move_choices(standing, vote, -1, -counted)
        self._move_contest(standing, vote, -1, -counted)
        self._set(vote, VoteStatus.REMOVED)
        standing.free_slot(vote.cast)
        return True

    def void(self, event: VoteVoided | VoteRestored) -> bool:
        """Take a vote out of the count, or back in; False where nothing changes. What it uses stays used.

        An operation takes a vote out once, and back in only what it took out itself: so a copy of either record
        that lands late undoes nothing that was decided since.
        """
        standing = self.voters.get(event.voter)
        vote = None if standing is None else standing.votes.get(event.vote_id)
        if standing is None or vote is None:
            return False
        if isinstance(event, VoteVoided):
            if vote.status is not VoteStatus.COUNTED or any(its.void == event.void for its in vote.voids):
                return False
            vote.voids, vote.void, after, by = (*vote.voids, event), event.void, VoteStatus.VOIDED, -1
        else:
            if vote.status is not VoteStatus.VOIDED or vote.void != event.void:
                return False
            vote.void, after, by = None, VoteStatus.COUNTED, 1
        self._move_choices(standing, vote, 0, by)
        self._move_contest(standing, vote, 0, by)
        self._set(vote, after)
        return True

    def void_later(self, event: VoteVoided | VoteRestored, offset: int) -> bool:
        """Keep what came behind the close; False for what waits already."""
        waiting = self.waiting_voids.setdefault((event.voter, event.vote_id), [])
        if any((known.type, known.void) == (event.type, event.void) for known, _ in waiting):
            return False
        waiting.append((event, offset))
        return True

    def wait(self, event: VoteRemoved, offset: int) -> bool:
        """Keep a removal that came behind the close; False for one that waits already."""
        known = self.waiting.setdefault((event.voter, event.vote_id), (event, offset))
        return known[1] == offset

    def close(self, event: ContestClosed) -> bool:
        """False for a marker that was there before, or was voided before it came."""
        if event.seq <= self.reopened:
            return False
        where = self if event.source is None else self.sources.setdefault(event.source, SourceTally())
        if abs(where.closed) >= event.seq:
            return False
        where.closed = event.seq
        return True

    def reopen(self, event: ContestReopened) -> bool:
        """False where it was done before. What waited takes effect, as much of it as the event says."""
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

    def _move_choices(self, standing: VoterLedger, vote: FoldedVote, used: int, active: int) -> None:
        """The vote's choices come to be used, and to count (1 each), or no more (-1)."""
        cast = vote.cast
        for participant, count in cast.choices:
            self.touched.add(participant)
            self._move(standing, vote, participant, used * count, active * count)
            self.at(participant, cast.source).count += active * count
            self.at("", cast.source).count += active * count
        if active:
            self._rate(cast, active)

    def _move_contest(self, standing: VoterLedger, vote: FoldedVote, used: int, active: int) -> None:
        """The same of the vote as such, in the contest."""
        self._move(standing, vote, "", used * vote.cast.weight, active * vote.cast.weight)

    def _move(self, standing: VoterLedger, vote: FoldedVote, participant: str, votes: int, active: int) -> None:
        """Use an allowance, or give it back, and count the voter where this is the first or the last."""
        source = vote.cast.source
        limit = vote.cast.max_participant if participant else vote.cast.max_contest
        before = {name: standing.voted(participant, name or None) for name in (source, "")}
        standing.sums(participant, source, vote.epoch).move(votes, active, limit)
        for name, voted in before.items():
            change = standing.voted(participant, name or None) - voted
            figures = self.at(participant, name)
            figures.unique += change
            figures.anonymous += change * standing.anonymous

    def _rate(self, cast: VoteCast, by: int) -> None:
        if cast.rating is not None:
            subs = {name: (1, value) for name, value in cast.rating.sub_ratings}
            sums = RatingSums(1, cast.rating.value, subs)
            for participant in ("", cast.choices[0][0]):
                before = self.ratings.get(participant, RatingSums())
                self.ratings[participant] = before + (sums if by > 0 else -sums)


@dataclass(slots=True)
class PartitionTally:
    """The fold of one partition. `fenced` and `duplicates` are records that changed nothing."""

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
            case VoteCast() | VoteRemoved() if event.incarnation != self.fence:
                self.fenced += 1
            case (
                VoteCast()
                | VoteRemoved()
                | VoteVoided()
                | VoteRestored()
                | SourceReported()
                | ContestClosed()
                | ContestReopened()
            ):
                contest = self.contests.setdefault(event.contest, ContestTally())
                if _changes(contest, event, offset, time_ms):
                    contest.last_offset = offset
                    contest.last_time_ms = max(contest.last_time_ms, time_ms)
                else:
                    self.duplicates += 1
            case Fence():
                if event.incarnation > self.fence and event.after in (None, self.fence):
                    self.fence = event.incarnation
            case LogCreated():
                pass
            case _:
                assert_never(event)


def _changes(
    contest: ContestTally,
    event: VoteCast | VoteRemoved | VoteVoided | VoteRestored | SourceReported | ContestClosed | ContestReopened,
    offset: int,
    time_ms: int,
) -> bool:
    """Fold `event` into its contest; False when it was there before, or says nothing new."""
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


def _never_cast(event: VoteRemoved) -> VoteCast:
    """What stands in the ledger for an id that was removed before it could be cast."""
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
