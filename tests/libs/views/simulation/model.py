"""The ledger as a model: gate, reservations and fold in plain Python, on the pure rules of `libs.tally`."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from libs.contracts.log import Behind, Position
from libs.tally.admission import Answer, Declined, Granted, Known, NotRunning, OverLimit, Reused, Shut, Stale
from libs.tally.commands import CastVote
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import ContestNotRunning, LimitReached
from libs.tally.events import Event, Fence, VoteCast
from libs.tally.rules import decide, limits_of, remaining
from libs.tally.standing import FoldedVote, Standing, VoteStatus
from libs.tally.tallies import PartitionTally
from libs.views.votes import PartitionState, UsedVotes, VoteState
from tests.libs.views.simulation.comparison import described, differing

APPEND_MS = 7


@dataclass(slots=True)
class Reservation:
    command: CastVote
    granted: Granted
    attempts: int = 1


@dataclass(slots=True)
class Stored:
    """What a server keeps, and may lose the last changes of."""

    open: bool = False
    run: int = -1
    n: int = 0
    asked: int = 0
    asked_after: int = 0
    asked_run: int = -1
    clock: int = 0
    config: dict[str, int] = field(default_factory=dict)
    floors: dict[str, int] = field(default_factory=dict)
    pending: dict[tuple[str, str, str], Reservation] = field(default_factory=dict)
    tally: PartitionTally = field(default_factory=PartitionTally)
    position: Position = field(default=Position("", 0))


class ModelLedger:
    """A guard a method, so that a test can take one away."""

    def __init__(self) -> None:
        self.s = Stored()
        self.run = 0
        self.now_ms = 1_000

    def tick(self) -> None:
        self.now_ms += 1

    def snapshot(self) -> Any:
        return pickle.dumps(self.s, pickle.HIGHEST_PROTOCOL)

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        self.s = pickle.loads(snapshot)
        self.run += 1
        self.now_ms = max(1, self.now_ms + clock_step_ms)

    def is_open(self) -> bool:
        return self.s.open and self.s.run == self.run

    def holds(self, incarnation: int) -> bool:
        return self.is_open() and self.s.n == incarnation

    def may_release(self, incarnation: int) -> bool:
        return self.holds(incarnation)

    def joined(self, first: Reservation) -> Granted:
        return replace(first.granted, joined=True, incarnation=self.s.n)

    def reserve(self, contest: Contest, command: CastVote) -> Answer:
        if not self.is_open():
            return Shut()
        self.s.clock = now = max(self.s.clock, self.now_ms * 1000)
        if (folded := self._folded(command)) is not None:
            cast = folded.cast
            if cast.content != command.content:
                return Reused()
            left = cast.remaining_participant, cast.remaining_contest
            return Known(cast.accepted_at, *left, cast.next_free_vote_at, folded.offset, folded.status)
        key = command.contest, command.voter, command.vote_id
        if (first := self.s.pending.get(key)) is not None:
            if first.command.content != command.content:
                return Reused()
            first.attempts += 1
            return self.joined(first)
        if self.s.config.get(contest.key) != contest.version:
            return Stale(self.s.config.get(contest.key), self.s.n)

        def used(participant: str) -> int:
            return self.used(command, participant)

        match decide(contest, command, used, now):
            case None:
                return self._grant(contest, command, now)
            case ContestNotRunning():
                return NotRunning(now)
            case LimitReached() as error:
                return OverLimit(error.scope, error.data["limit"], error.data["used"], None)
            case _:
                return Declined(now)

    def _grant(self, contest: Contest, command: CastVote, now: int) -> Granted:
        limits, ((participant, count),) = limits_of(contest, command.source), command.choices
        granted = Granted(
            joined=False,
            accepted_at=now,
            incarnation=self.s.n,
            remaining_participant=remaining(limits.max_participant, self.used(command, participant) + count),
            remaining_contest=remaining(limits.max_contest, self.used(command, "") + count),
            next_free_vote_at=None,
            epoch=0,
            config=contest.version,
            max_participant=limits.max_participant,
            max_contest=limits.max_contest,
        )
        self.s.pending[command.contest, command.voter, command.vote_id] = Reservation(command, granted)
        return granted

    def used(self, command: CastVote, participant: str) -> int:
        rows = self.allowance(command.contest, command.voter)
        return sum(row.votes for row in rows if (row.participant, row.source) == (participant, command.source))

    def release(self, command: CastVote, incarnation: int) -> None:
        key = command.contest, command.voter, command.vote_id
        if self.may_release(incarnation) and (reservation := self.s.pending.get(key)) is not None:
            reservation.attempts -= 1
            if reservation.attempts == 0:
                del self.s.pending[key]

    def confirm(self, incarnation: int) -> bool:
        return self.holds(incarnation)

    def raise_config(self, contest: str, version: int, incarnation: int | None = None) -> None:
        in_force, floor = (kept.get(contest, UNLIMITED) for kept in (self.s.config, self.s.floors))
        if incarnation is None and in_force == UNLIMITED:
            self.s.floors[contest] = max(version, floor)
        elif incarnation is None or (self.holds(incarnation) and version >= floor):
            self.s.config[contest] = max(version, in_force)

    def shut(self, incarnation: int) -> Fence | None:
        s = self.s
        if self.is_open() and s.n != incarnation:
            return None
        if s.asked_run != self.run or s.asked_after != s.tally.fence:
            s.asked = max(s.n + 1, s.tally.fence + 1, s.asked + 1, self.now_ms)
            s.config.clear()
            s.floors.clear()
        s.open, s.asked_run, s.asked_after = False, self.run, s.tally.fence
        return Fence(s.asked, s.asked_after, str(self.run))

    def apply(self, start: Position, events: Sequence[Event], end: int) -> None:
        s = self.s
        if s.position.log_id == start.log_id and s.position.offset >= end:
            return
        if s.position != start and s.position.log_id:
            raise Behind(s.position)
        if not s.position.log_id and start.offset:
            raise Behind(None)
        for offset, event in enumerate(events, end - len(events)):
            fence = s.tally.fence
            self.fold(event, offset)
            if isinstance(event, VoteCast) and event.incarnation == s.tally.fence:
                s.pending.pop((event.contest, event.voter, event.vote_id), None)
            if isinstance(event, Fence) and s.tally.fence != fence:
                self._fenced(event)
        s.position = Position(start.log_id, end)

    def fold(self, event: Event, offset: int) -> None:
        self.s.tally.evolve(event, offset, offset * APPEND_MS)

    def _fenced(self, fence: Fence) -> None:
        self.s.open = self.opens(fence)
        if self.s.open:
            self.drop_pending()
            self.s.n, self.s.run = fence.incarnation, self.run

    def opens(self, fence: Fence) -> bool:
        asked_here = self.s.asked_run == self.run and fence.run == str(self.run)
        return asked_here and self.s.asked == fence.incarnation

    def drop_pending(self) -> None:
        self.s.pending.clear()

    def _standing(self, contest: str, voter: str) -> Standing:
        tally = self.s.tally.contests.get(contest)
        return Standing() if tally is None else tally.voters.get(voter, Standing())

    def _folded(self, command: CastVote) -> FoldedVote | None:
        return self._standing(command.contest, command.voter).votes.get(command.vote_id)

    def state(self) -> PartitionState:
        s = self.s
        oldest = min((r.granted.accepted_at for r in s.pending.values()), default=None)
        judged = s.tally.fenced, s.tally.duplicates, 0, s.tally.overruled
        doubt = len(s.pending), oldest
        return PartitionState(s.position, self.is_open(), s.n, self.now_ms * 1000, s.tally.fence, *doubt, *judged)

    def lookup(self, command: CastVote) -> VoteState:
        head = self.s.position, self.is_open(), self.s.n
        if (folded := self._folded(command)) is not None:
            ((participant, count),) = folded.cast.choices
            return VoteState(
                *head,
                status=VoteStatus(folded.status),
                accepted_at=folded.cast.accepted_at,
                offset=folded.offset,
                participant=participant,
                count=count,
                source=folded.cast.source,
                content=folded.cast.content,
                remaining_participant=folded.cast.remaining_participant,
                remaining_contest=folded.cast.remaining_contest,
                next_free_vote_at=folded.cast.next_free_vote_at,
            )
        pending = self.s.pending.get((command.contest, command.voter, command.vote_id))
        return VoteState(*head, True, None, pending.granted.accepted_at) if pending else VoteState(*head)

    def allowance(self, contest: str, voter: str) -> list[UsedVotes]:
        rows = [UsedVotes(*key, used.votes) for key, used in self._standing(contest, voter).used.items()]
        for (its_contest, its_voter, _), reservation in self.s.pending.items():
            if (its_contest, its_voter) == (contest, voter):
                ((participant, count),) = reservation.command.choices
                rows += [UsedVotes(name, reservation.command.source, 0, count) for name in (participant, "")]
        return rows

    def differences(self, tally: PartitionTally) -> list[str]:
        mine, other = described(self.s.tally), described(tally)
        return differing(mine, other)
