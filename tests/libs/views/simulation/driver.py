"""The simulation's driver of the voting protocols: delays, loses, repeats and reorders what it performs."""

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from libs.contracts.log_records import Appended
from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.contest import Contest
from libs.tally.errors import AppendUnknown, LedgerCatchingUp, LogUnavailable, NotAppended, ViewsUnavailable
from libs.tally.events import Event, VoteCast
from libs.tally.reservations import Answer, Granted, RemovalAnswer, RemovalGranted
from libs.voting.protocol.effects import (
    AddressTaken,
    Append,
    AwaitGate,
    AwaitRecord,
    AwaitVote,
    Confirm,
    GiveAddress,
    LoadContest,
    PutInForce,
    ReadVote,
    Release,
    Reserve,
    ReserveRemoval,
    TakeAddress,
)
from tests.libs.views.simulation.client_requests import Casting, Errand, Removing
from tests.libs.views.simulation.lua_ledger import request_of
from tests.libs.views.simulation.simulated_system import SEND_DEADLINE, SimulatedSystem, Steps, Violation

UNKNOWN = LogUnavailable, ViewsUnavailable, LedgerCatchingUp
"""Errors with status 503."""
RESERVATIONS = 6
"""Reservations until the deadline of a request."""
POLLS = 8
Performing = Generator[int, None, Any]
"""Performs an effect, and returns its reply; anything may happen at each yield."""


class Driver:
    """Performs the effects of one request in one worker. A crash between any two of its steps ends it."""

    def __init__(self, system: SimulatedSystem, worker: int, errand: Errand) -> None:
        self.system = system
        self.worker = worker
        self.errand = errand
        self.reservations = 0
        self.reserved: Any = None
        """Reply to a reservation that was made with the use of an address's limit."""

    def run(self) -> Generator[int, None, Any]:
        """Run the request's protocol, and return its outcome."""
        steps = self.errand.protocol(self.system.caches[self.worker])
        reply: Any = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = yield from self._perform(effect)

    def _perform(self, effect: Any) -> Performing:
        system, errand, ledger = self.system, self.errand, self.system.ledger
        match effect:
            case Reserve() if self.reserved is not None:
                reserved, self.reserved = self.reserved, None
                return reserved
            case Reserve() | ReserveRemoval():
                return (yield from self._reserve(effect))
            case Append(event):
                return (yield from produce(system, event))
            case Confirm(incarnation):
                confirmed = ledger.confirm(incarnation)
                yield 1
                return ViewsUnavailable("lost") if system.chance(system.faults.send / 6) else confirmed
            case Release(incarnation):
                errand.release(ledger, incarnation)
                system.note(f"release {errand} under {incarnation}")
                yield 1
            case AwaitRecord(is_decided, incarnation):
                return (yield from self._await_vote(lambda s: s.progress.ended(incarnation) or is_decided(s)))
            case AwaitVote(is_decided, since):
                return (yield from self._await_vote(lambda s: s.progress != since and is_decided(s)))
            case AwaitGate(since):
                return (yield from self._await_gate(since))
            case LoadContest(_, at_least):
                return (yield from self._load(at_least))
            case PutInForce(contest, incarnation):
                done = ledger.put_in_force(contest, incarnation)
                yield 1
                return done
            case TakeAddress(contest, taker, votes, then):
                taken = [self._take(contest, taker, *vote) for vote in votes]
                full = [used for _, used in taken if used is not None]
                if not system.reserves_with_limits:
                    yield 1
                else:
                    its = then._replace(selection=None) if full else then
                    self.reserved = yield from self._reserve(Reserve(its))
                    if isinstance(self.reserved, ViewsUnavailable):
                        error, self.reserved = self.reserved, None
                        return error
                return AddressTaken(tuple(name for name, _ in taken if name), full[-1] if full else None)
            case GiveAddress(address, uses, removed):
                for participant, taker in uses:
                    counter = system.addresses.get((participant, address), {})
                    used, holds = counter.pop(taker, (0, 0))
                    if holds > 1 and not removed:
                        counter[taker] = used, holds - 1
                yield 1
            case ReadVote():
                state = ledger.lookup(errand.command)
                yield 1
                found = None if state.offset is None else system.log[state.offset]
                return found if isinstance(found, VoteCast) else None
            case _:
                raise AssertionError(f"unknown effect {effect}")
        return None

    def _reserve(self, effect: Reserve | ReserveRemoval) -> Performing:
        system, errand = self.system, self.errand
        self.reservations += 1
        if self.reservations > RESERVATIONS:
            return ViewsUnavailable("too late")
        if isinstance(effect, Reserve):
            assert isinstance(errand, Casting)
            request = effect.request
            declined = request.selection is None
            assert request == request_of(request.contest, errand.command, declined=declined)
            answer: Answer | RemovalAnswer = system.ledger.reserve(
                request.contest, errand.command, declined=declined
            )
        else:
            assert isinstance(errand, Removing)
            request = None
            answer = errand.ask(system, effect.contest)
        system.note(f"{errand}: {answer}")
        if isinstance(answer, Granted) and request is not None:
            system.granted.add((errand.command.voter, errand.command.vote_id))
            if not answer.joined:
                check_grant(system, request.contest, answer)
        if isinstance(answer, Granted | RemovalGranted) and system.chance(system.faults.send / 4):
            # the answer is lost, or comes too late: then the real driver gives a vote back
            if isinstance(answer, Granted) and system.chance(0.7):
                system.start(give_back(system, errand, answer))
            return ViewsUnavailable("no answer")
        yield 1
        return answer

    def _await_vote(self, is_decided: Any) -> Generator[int, None, VoteState | None]:
        for _ in range(POLLS):
            yield self.system.rng.randint(1, 8)
            state = self.system.ledger.lookup(self.errand.command)
            if is_decided(state):
                yield 1
                return state
        return None

    def _await_gate(self, since: FoldProgress | None) -> Generator[int, None, FoldProgress | None]:
        for _ in range(POLLS):
            yield self.system.rng.randint(1, 15)
            state = self.system.ledger.state()
            progress = FoldProgress(state.position, state.open, state.incarnation)
            if progress.open and progress != since:
                return progress
        return None

    def _load(self, at_least: int | None) -> Performing:
        """Return what the worker has if that is new enough, else, and where nothing is in force, a load."""
        system = self.system
        for _ in range(POLLS):
            contest = system.caches[self.worker]
            if at_least is None or contest.version < at_least:
                contest = replace(system.catalogue[-1], as_of=len(system.catalogue))
                system.caches[self.worker] = contest
            yield 1
            if contest.version >= (at_least or 0):
                return contest
        return ViewsUnavailable("the catalogue's view is behind")

    def _take(self, contest: Contest, taker: str, participant: str, count: int) -> tuple[str, int | None]:
        """Use the address's votes: the participant whose use is held, and those used if too many."""
        counter = self.system.addresses.setdefault((participant, self.errand.address), {})
        used, (had, holds) = sum(votes for votes, _ in counter.values()), counter.get(taker, (0, 0))
        if count > had and used + count - had > contest.ip_restriction_per_participant:
            return "", used
        counter[taker] = max(had, count), holds + 1
        return participant, None


def give_back(system: SimulatedSystem, errand: Errand, granted: Granted) -> Steps:
    yield system.rng.randint(1, 60)
    errand.release(system.ledger, granted.incarnation)
    system.note(f"release late {errand} under {granted.incarnation}")


def check_grant(system: SimulatedSystem, contest: Contest, granted: Granted) -> None:
    if contest.version < system.patched:
        raise Violation(f"granted by version {contest.version}, but {system.patched} was answered")
    before = system.latest_moments.get(granted.incarnation, 0)
    if granted.accepted_at <= before:
        raise Violation(f"under {granted.incarnation} accepted at {granted.accepted_at} after {before}")
    system.latest_moments[granted.incarnation] = granted.accepted_at


def produce(system: SimulatedSystem, event: Event) -> Generator[int, None, Appended | NotAppended | AppendUnknown]:
    """Append a record, refuse it for certain, or leave its outcome unknown."""
    if not system.chance(system.faults.send):
        offset = system.append(event)
        yield 1
        return Appended(0, offset, True)
    match system.rng.choice(["refused", "late", "never", "no answer", "twice", "inexact", "late twice"]):
        case "refused":
            yield system.rng.choice([1, 1, 40, 80])
            return NotAppended("refused")
        case "no answer":
            system.append(event)
        case "inexact":
            system.append(event)
            yield 1
            return Appended(0, -1, False)
        case "twice":
            offset = system.append(event)
            system.start(system.land(event, system.rng.randint(1, 60)))
            yield 1
            return Appended(0, offset, True)
        case "late":
            system.start(system.land(event, system.rng.randint(5, 150)))
        case "late twice":
            system.start(system.land(event, system.rng.randint(5, 60)))
            system.start(system.land(event, system.rng.randint(5, 150)))
    yield SEND_DEADLINE
    return AppendUnknown("unknown")
