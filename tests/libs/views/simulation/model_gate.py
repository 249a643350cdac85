"""Model of a partition's gate: pending votes, configurations in force, and fences."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from libs.contracts.log_records import Behind, Position
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.events import Event, Fence, VoteCast, VoteRemoved
from libs.tally.fold import PartitionTally
from libs.tally.vote_commands import CastVote, RemoveVote
from tests.libs.views.simulation.allowance_use import Reservation
from tests.libs.views.simulation.ledger import BEGIN_MS

APPEND_MS: Final = 7
"""Between two records of the log."""
Key = tuple[str, str, str]
"""(contest, voter, vote id)"""


@dataclass(slots=True)
class Removal:
    removed_at: int
    attempts: int = 1


@dataclass(slots=True)
class Stored:
    """A server's state, whose last changes it may lose."""

    open: bool = False
    run: int = -1
    n: int = 0
    asked: int = 0
    asked_after: int = 0
    asked_run: int = -1
    clock: int = 0
    forget_clock: bool = False
    config: dict[str, int] = field(default_factory=dict)
    floors: dict[str, int] = field(default_factory=dict)
    needs: int = 0
    pending: dict[Key, Reservation] = field(default_factory=dict)
    removals: dict[Key, Removal] = field(default_factory=dict)
    tally: PartitionTally = field(default_factory=PartitionTally)
    position: Position = field(default=Position("", 0))


def key_of(of: CastVote | RemoveVote | VoteCast | VoteRemoved) -> Key:
    return of.contest, of.voter, of.vote_id


class ModelGate:
    """A guard a method, so that a test can take one away."""

    def __init__(self) -> None:
        self.s = Stored()
        self.run = 0
        self.now_ms = BEGIN_MS

    def tick(self, turns: int = 1) -> None:
        self.now_ms += turns

    def snapshot(self) -> Any:
        return pickle.dumps(self.s, pickle.HIGHEST_PROTOCOL)

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        self.s = pickle.loads(snapshot)
        self.run += 1
        self.now_ms += clock_step_ms

    def is_open(self) -> bool:
        return self.s.open and self.s.run == self.run

    def holds(self, incarnation: int) -> bool:
        return self.is_open() and self.s.n == incarnation

    def may_release(self, incarnation: int) -> bool:
        return self.holds(incarnation)

    def confirm(self, incarnation: int) -> bool:
        return self.holds(incarnation)

    def raise_config(self, contest: str, version: int) -> None:
        kept = self.s.config if contest in self.s.config else self.s.floors
        kept[contest] = max(version, kept.get(contest, UNLIMITED))

    def put_in_force(self, contest: Contest, incarnation: int) -> bool:
        if not self.holds(incarnation) or contest.version < self.s.floors.get(contest.key, UNLIMITED):
            return True
        if contest.as_of < self.s.needs:
            return False
        self.s.config[contest.key] = max(contest.version, self.s.config.get(contest.key, UNLIMITED))
        return True

    def need(self, fence: Fence, catalogue_end: int) -> None:
        if self.s.asked == fence.incarnation:
            self.s.needs = max(self.s.needs, catalogue_end)

    def shut(self, incarnation: int, forget_clock: bool = False) -> Fence | None:
        s = self.s
        if self.is_open() and s.n != incarnation:
            return None
        s.forget_clock = s.forget_clock or forget_clock
        if s.asked_run != self.run or s.asked_after != s.tally.fence:
            s.asked = max(s.n + 1, s.tally.fence + 1, s.asked + 1, self.now_ms)
            s.config.clear()
            s.floors.clear()
            s.needs = 0
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
            if isinstance(event, VoteCast | VoteRemoved) and event.incarnation == s.tally.fence:
                held: dict[Key, Any] = s.pending if isinstance(event, VoteCast) else s.removals
                held.pop(key_of(event), None)
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
            if self.s.forget_clock:
                self.s.clock, self.s.forget_clock = 0, False

    def opens(self, fence: Fence) -> bool:
        asked_here = self.s.asked_run == self.run and fence.run == str(self.run)
        return asked_here and self.s.asked == fence.incarnation

    def drop_pending(self) -> None:
        self.s.pending.clear()
        self.s.removals.clear()
