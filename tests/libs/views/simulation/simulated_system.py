"""The simulated system: one partition's log and ledger, processes that take turns, and faults."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field, replace
from random import Random

from libs.contracts.log_records import Position
from libs.tally.contest import Contest
from libs.tally.events import Event, LogCreated
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.views.reply_types import ClosingState
from tests.libs.views.simulation.ledger import BEGIN_MS, Ledger

Steps = Generator[int, None, None]
"""A process. Between two of its steps anything may happen; it yields how many turns it sleeps at least."""

LOG_ID = "log"
SEND_DEADLINE = 12
"""Turns after which a send that was not answered is unknown."""


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(slots=True)
class Process:
    steps: Steps
    wake_at: int = 0
    then: Callable[[], None] = lambda: None
    """Called when it ended or crashed."""


@dataclass(frozen=True, slots=True)
class Faults:
    """Probability of each, a turn."""

    crash: float = 0.01
    freeze: float = 0.03
    restart: float = 0.01
    lost_writes: float = 0.7
    """Of the restarts."""
    clock_step: float = 0.5
    """Of the restarts."""
    send: float = 0.35
    """Of the sends."""


NONE = Faults(0, 0, 0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Success:
    """A 200 or 201."""

    command: CastVote
    accepted_at: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A 204 to a voter, or a refund that is done."""

    command: CastVote | RemoveVote


@dataclass(slots=True)
class SimulatedSystem:
    rng: Random
    ledger: Ledger
    faults: Faults = field(default_factory=Faults)
    may_close: Callable[[SimulatedSystem, Contest, ClosingState], bool] = lambda *_: False
    now: int = 0
    log: list[Event] = field(default_factory=lambda: [LogCreated(LOG_ID)])
    processes: list[Process] = field(default_factory=list)
    changes: list[Contest] = field(default_factory=list)
    """The catalogue's log: every version of the contest, numbered from 1."""
    catalogue: list[Contest] = field(default_factory=list)
    """The catalogue's view: `changes` up to where they were folded."""
    patched: int = 0
    """The version of the last configuration change that was answered."""
    answers_early: bool = False
    """A change is answered before its version is raised: a mutation."""
    reserves_with_limits: bool = False
    """One call uses an address's limit and reserves the vote, as where one server has all keys."""
    latest_moments: dict[int, int] = field(default_factory=dict)
    """The time of the last accepted vote, by fence epoch."""
    caches: list[Contest] = field(default_factory=list)
    """Each ingestion worker's copy of the contest."""
    successes: list[Success] = field(default_factory=list)
    removed: list[Removed] = field(default_factory=list)
    voided: set[tuple[str, str, str]] = field(default_factory=set)
    """(operation, voter, vote id) that an operator had voided."""
    restored: set[tuple[str, str, str]] = field(default_factory=set)
    """Those of them whose restoring was acknowledged."""
    unwanted: set[tuple[str, str]] = field(default_factory=set)
    """(voter, vote id) whose removal or refund was asked for."""
    addresses: dict[tuple[str, str], dict[str, tuple[int, int]]] = field(default_factory=dict)
    """Votes used of an address's limit, and the attempts that hold them, by (participant, address) and taker."""
    granted: set[tuple[str, str]] = field(default_factory=set)
    history: list[str] = field(default_factory=list)
    snapshots: list[object] = field(default_factory=list)

    def chance(self, probability: float) -> bool:
        return probability > 0 and self.rng.random() < probability

    def wall_clock(self) -> int:
        """The time (us) that a process's own clock says; the server's may step away from it."""
        return (BEGIN_MS + self.now) * 1000

    def note(self, what: str) -> None:
        self.history.append(f"{self.now:4} {what}")

    def change(self, contest: Contest) -> int:
        """Write the contest to the catalogue's log; its version."""
        version = len(self.changes) + 1
        self.changes.append(replace(contest, version=version))
        self.note(f"change {self.changes[-1]}")
        return version

    def append(self, event: Event) -> int:
        self.log.append(event)
        self.note(f"log {len(self.log) - 1}: {event}")
        return len(self.log) - 1

    def land(self, event: Event, delay: int) -> Steps:
        """A record that a frozen producer, or the way to the broker, held back."""
        yield delay
        self.append(event)

    def start(self, steps: Steps, then: Callable[[], None] = lambda: None, wake_at: int = 0) -> None:
        self.processes.append(Process(steps, wake_at, then))

    def turn(self) -> None:
        """One step of one process, or one fault."""
        self.now += 1
        self.ledger.tick()
        if self.chance(self.faults.restart):
            self.restart()
        elif self.faults.restart and self.chance(0.08):
            self.snapshots = [*self.snapshots[-3:], self.ledger.snapshot()]
        awake = [process for process in self.processes if process.wake_at <= self.now]
        if not awake:
            return
        process = self.rng.choice(awake)
        if self.chance(self.faults.crash):
            self.end(process)
        elif self.chance(self.faults.freeze):
            process.wake_at = self.now + self.rng.randint(5, 120)
        else:
            try:
                process.wake_at = self.now + next(process.steps)
            except StopIteration:
                self.end(process)

    def end(self, process: Process) -> None:
        self.processes.remove(process)
        process.then()

    def restart(self) -> None:
        lost = bool(self.snapshots) and self.chance(self.faults.lost_writes)
        snapshot = self.rng.choice(self.snapshots) if lost else self.ledger.snapshot()
        step = self.rng.randint(-200, 100) if self.chance(self.faults.clock_step) else 0
        self.ledger.restart(snapshot, step)
        if lost:
            del self.catalogue[self.rng.randint(1, len(self.catalogue)) :]
        # what a server forgot, a later one cannot remember
        self.snapshots = [snapshot]
        self.note(f"valkey restarts{', writes lost' if lost else ''}: {self.ledger.state()}")

    def believed_position(self) -> Position:
        position = self.ledger.state().position
        return position if position.log_id else Position(LOG_ID, 0)
