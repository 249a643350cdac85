"""Ingestion: the voters' requests and the workers that carry them out, step by step as DESIGN.md tells it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

from libs.tally.contest import Contest
from libs.tally.events import Event
from libs.tally.reservations import GateClosed, Granted, RemovalGranted, Stale
from tests.libs.views.simulation.errands import Casting, Errand
from tests.libs.views.simulation.world import SEND_DEADLINE, Steps, Violation, World

ATTEMPTS = 6


def client(world: World, errand: Errand, patience: int) -> None:
    """Send the request; unless it is answered for certain, send the same again."""
    worker = world.rng.randrange(len(world.caches))
    answered: list[bool] = []

    def again() -> None:
        if not answered and patience and world.chance(0.8):
            client(world, errand, patience - 1)

    world.start(attempt(world, worker, errand, answered), again, world.now + world.rng.randint(0, 20))


def attempt(world: World, worker: int, errand: Errand, answered: list[bool]) -> Steps:
    """One request. `answered` stays empty when the outcome is unknown to the client (503, or a crash)."""
    for _ in range(ATTEMPTS):
        contest = world.caches[worker]
        answer = errand.ask(world, contest)
        world.note(f"{errand} by v{contest.version}: {answer}")
        if isinstance(answer, Granted) and not answer.joined:
            check_grant(world, contest, answer)
        if isinstance(answer, Granted) and is_late(world):
            world.start(give_back(world, errand, answer))
            return
        yield 1
        if isinstance(answer, Stale):
            loaded = contest_for(world, worker, answer)
            yield 1
            if answer.in_force is None or answer.in_force < loaded.version:
                world.ledger.put_in_force(loaded, answer.incarnation)
            world.caches[worker] = loaded
            yield 1
        elif isinstance(answer, Granted | RemovalGranted):
            ended = yield from record(world, errand, answer)
            if ended is not None:
                answered += [True] * ended
                return
        elif isinstance(answer, GateClosed) or errand.waits_for(answer):
            yield world.rng.randint(1, 15)
        else:
            errand.answered(world, answer)
            answered.append(True)
            return


def is_late(world: World) -> bool:
    """The voter was answered 503 before the grant came, and may send the vote again at once."""
    return world.late_grants is not None and world.late_grants.random() < world.faults.send / 2


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


def contest_for(world: World, worker: int, stale: Stale) -> Contest:
    """Return the worker's contest if it is as new as the one in force; otherwise load it."""
    cached = world.caches[worker]
    if stale.in_force is not None and cached.version >= stale.in_force:
        return cached
    return replace(world.catalogue[-1], as_of=len(world.catalogue))


def record(world: World, errand: Errand, granted: Granted | RemovalGranted) -> Generator[int, None, bool | None]:
    """Produce what was reserved. True: 201 or 204; False: 503; None: it was fenced off, reserve again."""
    sent = yield from produce(world, errand.event(granted))
    if sent == "refused":
        errand.release(world.ledger, granted.incarnation)
        world.note(f"release {errand} under {granted.incarnation}")
        return False
    if sent == "acknowledged" and (not world.confirms_after_ack or world.ledger.confirm(granted.incarnation)):
        yield 1
        errand.succeeded(world, granted)
        return True
    return (yield from settle(world, errand, granted.incarnation))


def settle(world: World, errand: Errand, incarnation: int) -> Generator[int, None, bool | None]:
    """Wait until the fold shows it (True), or a fence without it (None); not for ever (False)."""
    for _ in range(8):
        yield world.rng.randint(1, 8)
        state = world.ledger.lookup(errand.command)
        if state.known is not None and isinstance(errand, Casting) and state.content != errand.command.content:
            return None  # another request took the id: to reserve again says so
        if errand.is_done(state):
            errand.answered(world, state.known)
            return True
        if state.progress.ended(incarnation):
            return None
    return False


def produce(world: World, event: Event) -> Generator[int, None, str]:
    """Outcome of an append: in the log, definitely refused, or unknown."""
    if not world.chance(world.faults.send):
        world.append(event)
        yield 1
        return "acknowledged"
    match world.rng.choice(["refused", "late", "never", "no answer", "twice", "late twice"]):
        case "refused":
            yield world.rng.choice([1, 1, 40, 80])
            return "refused"
        case "no answer":
            world.append(event)
        case "twice":
            world.append(event)
            world.start(world.land(event, world.rng.randint(1, 60)))
            yield 1
            return "acknowledged"
        case "late":
            world.start(world.land(event, world.rng.randint(5, 150)))
        case "late twice":
            world.start(world.land(event, world.rng.randint(5, 60)))
            world.start(world.land(event, world.rng.randint(5, 150)))
    yield SEND_DEADLINE
    return "unknown"
