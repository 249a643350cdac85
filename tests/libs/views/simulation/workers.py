"""Ingestion: the voters' requests and the workers that carry them out, step by step as DESIGN.md tells it."""

from __future__ import annotations

from collections.abc import Generator

from libs.tally.admission import Granted, Known, Shut, Stale, cast_of
from libs.tally.commands import CastVote
from libs.tally.events import VoteCast
from libs.tally.standing import VoteStatus
from tests.libs.views.simulation.world import SEND_DEADLINE, Steps, Success, Violation, World

ATTEMPTS = 6


def client(world: World, command: CastVote, patience: int) -> None:
    """Send the request; unless it is answered for certain, send the same again."""
    worker = world.rng.randrange(len(world.caches))
    answered: list[bool] = []

    def again() -> None:
        if not answered and patience and world.chance(0.8):
            client(world, command, patience - 1)

    world.start(attempt(world, worker, command, answered), again, world.now + world.rng.randint(0, 20))


def attempt(world: World, worker: int, command: CastVote, answered: list[bool]) -> Steps:
    """One request. `answered` stays empty when the outcome is unknown to the client (503, or a crash)."""
    for _ in range(ATTEMPTS):
        contest = world.caches[worker]
        answer = world.ledger.reserve(contest, command)
        world.note(f"reserve {_name(command)} by v{contest.version}: {answer}")
        if isinstance(answer, Granted):
            if not answer.joined and contest.version < world.patched:
                raise Violation(f"granted by version {contest.version}, but {world.patched} was answered")
            world.granted.add((command.voter, command.vote_id))
        yield 1
        if isinstance(answer, Shut):
            yield world.rng.randint(1, 15)
        elif isinstance(answer, Stale):
            loaded = world.catalogue[-1]
            yield 1
            world.ledger.raise_config(loaded.key, loaded.version, answer.incarnation)
            world.caches[worker] = loaded
            yield 1
        elif isinstance(answer, Granted):
            ended = yield from record(world, command, answer)
            if ended is not None:
                answered += [True] * ended
                return
        elif isinstance(answer, Known):
            if answer.status is not VoteStatus.COUNTED:
                raise Violation(f"{_name(command)} is {answer.status.name}")
            succeed(world, command, answer.accepted_at)
            answered.append(True)
            return
        else:
            world.refusals.append((command, answer))
            answered.append(True)
            return


def record(world: World, command: CastVote, granted: Granted) -> Generator[int, None, bool | None]:
    """Produce a reserved vote. True: 201; False: 503; None: it was fenced off, reserve again."""
    sent = yield from produce(world, cast_of(command, granted, "receipt"))
    if sent == "refused":
        world.ledger.release(command, granted.incarnation)
        world.note(f"release {_name(command)} under {granted.incarnation}")
        return False
    if sent == "acknowledged" and (not world.confirms_after_ack or world.ledger.confirm(granted.incarnation)):
        yield 1
        succeed(world, command, granted.accepted_at)
        return True
    return (yield from settle(world, command, granted.incarnation))


def settle(world: World, command: CastVote, incarnation: int) -> Generator[int, None, bool | None]:
    """Wait until the fold shows the vote (True), or a fence without it (None); not for ever (False)."""
    for _ in range(8):
        yield world.rng.randint(1, 8)
        state = world.ledger.lookup(command)
        if state.status is VoteStatus.OVERRULED:
            raise Violation(f"{_name(command)} was overruled")
        if state.status is not None and state.content != command.content:
            return None  # another request took the id: to reserve again says so
        if state.accepted_at is not None and state.status is not None:
            succeed(world, command, state.accepted_at)
            return True
        if state.open and state.incarnation != incarnation:
            return None
    return False


def produce(world: World, cast: VoteCast) -> Generator[int, None, str]:
    """What the log does with a record: takes it, refuses it for certain, or nobody knows."""
    if not world.chance(world.faults.send):
        world.append(cast)
        yield 1
        return "acknowledged"
    match world.rng.choice(["refused", "late", "never", "no answer", "twice", "late twice"]):
        case "refused":
            yield world.rng.choice([1, 1, 40, 80])
            return "refused"
        case "no answer":
            world.append(cast)
        case "twice":
            world.append(cast)
            world.start(land(world, cast, world.rng.randint(1, 60)))
            yield 1
            return "acknowledged"
        case "late":
            world.start(land(world, cast, world.rng.randint(5, 150)))
        case "late twice":
            world.start(land(world, cast, world.rng.randint(5, 60)))
            world.start(land(world, cast, world.rng.randint(5, 150)))
    yield SEND_DEADLINE
    return "unknown"


def land(world: World, cast: VoteCast, delay: int) -> Steps:
    """A record that a frozen producer, or the way to the broker, held back."""
    yield delay
    world.append(cast)


def succeed(world: World, command: CastVote, accepted_at: int) -> None:
    world.successes.append(Success(command, accepted_at))
    world.note(f"201 for {_name(command)}")


def _name(command: CastVote) -> str:
    return f"{command.voter[:4]}/{command.vote_id} {command.choices}"
