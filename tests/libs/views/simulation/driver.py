"""The simulation's driver of the voting protocols: delays, loses, repeats and reorders what it performs."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from libs.contracts.log_records import Appended
from libs.contracts.vote_states import Progress, VoteState
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
from tests.libs.views.simulation.simulated_system import SEND_DEADLINE, Steps, Violation, World

UNKNOWN = LogUnavailable, ViewsUnavailable, LedgerCatchingUp
"""Errors with status 503."""
RESERVATIONS = 6
"""Reservations until the deadline of a request."""
POLLS = 8
Performing = Generator[int, None, Any]
"""Performs an effect, and returns its reply; anything may happen at each yield."""


class Driver:
    """Performs the effects of one request in one worker. A crash between any two of its steps ends it."""

    def __init__(self, world: World, worker: int, errand: Errand) -> None:
        self.world = world
        self.worker = worker
        self.errand = errand
        self.reservations = 0

    def run(self) -> Generator[int, None, Any]:
        """Run the request's protocol, and return its outcome."""
        steps = self.errand.protocol(self.world.caches[self.worker])
        reply: Any = None
        while True:
            try:
                effect = steps.send(reply)
            except StopIteration as end:
                return end.value
            reply = yield from self._perform(effect)

    def _perform(self, effect: Any) -> Performing:
        world, errand, ledger = self.world, self.errand, self.world.ledger
        match effect:
            case Reserve() | ReserveRemoval():
                return (yield from self._reserve(effect))
            case Append(event):
                return (yield from produce(world, event))
            case Confirm(incarnation):
                confirmed = ledger.confirm(incarnation)
                yield 1
                return ViewsUnavailable("lost") if world.chance(world.faults.send / 6) else confirmed
            case Release(incarnation):
                errand.release(ledger, incarnation)
                world.note(f"release {errand} under {incarnation}")
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
            case TakeAddress(contest, taker, votes):
                taken = [self._take(contest, taker, *vote) for vote in votes]
                yield 1
                full = [used for _, used in taken if used is not None]
                return AddressTaken(tuple(name for name, _ in taken if name), full[-1] if full else None)
            case GiveAddress(address, takers, participants):
                for participant in participants:
                    for taker in takers:
                        world.addresses.get((participant, address), {}).pop(taker, None)
                yield 1
            case ReadVote():
                state = ledger.lookup(errand.command)
                yield 1
                found = None if state.offset is None else world.log[state.offset]
                return found if isinstance(found, VoteCast) else None
            case _:
                raise AssertionError(f"unknown effect {effect}")
        return None

    def _reserve(self, effect: Reserve | ReserveRemoval) -> Performing:
        world, errand = self.world, self.errand
        self.reservations += 1
        if self.reservations > RESERVATIONS:
            return ViewsUnavailable("too late")
        if isinstance(effect, Reserve):
            assert isinstance(errand, Casting)
            request = effect.request
            declined = request.selection is None
            assert request == request_of(request.contest, errand.command, declined=declined)
            answer: Answer | RemovalAnswer = world.ledger.reserve(
                request.contest, errand.command, declined=declined
            )
        else:
            assert isinstance(errand, Removing)
            request = None
            answer = errand.ask(world, effect.contest)
        world.note(f"{errand}: {answer}")
        if isinstance(answer, Granted) and request is not None:
            world.granted.add((errand.command.voter, errand.command.vote_id))
            if not answer.joined:
                check_grant(world, request.contest, answer)
        if isinstance(answer, Granted | RemovalGranted) and world.chance(world.faults.send / 4):
            # the answer is lost, or comes too late: then the real driver gives a vote back
            if isinstance(answer, Granted) and world.chance(0.7):
                world.start(give_back(world, errand, answer))
            return ViewsUnavailable("no answer")
        yield 1
        return answer

    def _await_vote(self, is_decided: Any) -> Generator[int, None, VoteState | None]:
        for _ in range(POLLS):
            yield self.world.rng.randint(1, 8)
            state = self.world.ledger.lookup(self.errand.command)
            if is_decided(state):
                yield 1
                return state
        return None

    def _await_gate(self, since: Progress | None) -> Generator[int, None, Progress | None]:
        for _ in range(POLLS):
            yield self.world.rng.randint(1, 15)
            state = self.world.ledger.state()
            progress = Progress(state.position, state.open, state.incarnation)
            if progress.open and progress != since:
                return progress
        return None

    def _load(self, at_least: int | None) -> Performing:
        """Return what the worker has if that is new enough, else, and where nothing is in force, a load."""
        world = self.world
        for _ in range(POLLS):
            contest = world.caches[self.worker]
            if at_least is None or contest.version < at_least:
                contest = replace(world.catalogue[-1], as_of=len(world.catalogue))
                world.caches[self.worker] = contest
            yield 1
            if contest.version >= (at_least or 0):
                return contest
        return ViewsUnavailable("the catalogue's view is behind")

    def _take(self, contest: Contest, taker: str, participant: str, count: int) -> tuple[str, int | None]:
        """Use the address's votes: the participant if they were not used before, and those used if too many."""
        counter = self.world.addresses.setdefault((participant, self.errand.address), {})
        if taker in counter:
            return "", None
        used = sum(counter.values())
        if used + count > contest.ip_restriction_per_participant:
            return "", used
        counter[taker] = count
        return participant, None


def give_back(world: World, errand: Errand, granted: Granted) -> Steps:
    yield world.rng.randint(1, 60)
    errand.release(world.ledger, granted.incarnation)
    world.note(f"release late {errand} under {granted.incarnation}")


def check_grant(world: World, contest: Contest, granted: Granted) -> None:
    if contest.version < world.patched:
        raise Violation(f"granted by version {contest.version}, but {world.patched} was answered")
    before = world.latest_moments.get(granted.incarnation, 0)
    if granted.accepted_at <= before:
        raise Violation(f"under {granted.incarnation} accepted at {granted.accepted_at} after {before}")
    world.latest_moments[granted.incarnation] = granted.accepted_at


def produce(world: World, event: Event) -> Generator[int, None, Appended | NotAppended | AppendUnknown]:
    """Append a record, refuse it for certain, or leave its outcome unknown."""
    if not world.chance(world.faults.send):
        offset = world.append(event)
        yield 1
        return Appended(0, offset, True)
    match world.rng.choice(["refused", "late", "never", "no answer", "twice", "inexact", "late twice"]):
        case "refused":
            world.has_refused = True
            yield world.rng.choice([1, 1, 40, 80])
            return NotAppended("refused")
        case "no answer":
            world.append(event)
        case "inexact":
            world.append(event)
            yield 1
            return Appended(0, -1, False)
        case "twice":
            offset = world.append(event)
            world.start(world.land(event, world.rng.randint(1, 60)))
            yield 1
            return Appended(0, offset, True)
        case "late":
            world.start(world.land(event, world.rng.randint(5, 150)))
        case "late twice":
            world.start(world.land(event, world.rng.randint(5, 60)))
            world.start(world.land(event, world.rng.randint(5, 150)))
    yield SEND_DEADLINE
    return AppendUnknown("unknown")
