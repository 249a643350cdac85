"""The projector's processes: folding, fencing, and putting configurations in force."""

from __future__ import annotations

from dataclasses import replace

from libs.contracts.log import Behind, Position
from libs.tally.contest import Contest
from libs.tally.events import Fence
from tests.libs.views.simulation.world import LOG_ID, SEND_DEADLINE, Steps, World


def projector(world: World) -> Steps:
    """Folds on from where it believes to be. A late one is refused and seeks."""
    at = world.believed_position()
    while True:
        batch = world.log[at.offset : at.offset + world.rng.randint(1, 6)]
        yield world.rng.randint(1, 4)
        if not batch:
            continue
        end = at.offset + len(batch)
        try:
            world.ledger.apply(at, batch, end)
            at = Position(LOG_ID, end)
        except Behind as behind:
            at = behind.stored or Position(LOG_ID, 0)


def fencer(world: World) -> Steps:
    """Shuts the gate when in doubt, and appends the fence whose fold opens it."""
    suspect, since, end = None, 0, None
    while True:
        state = world.ledger.state()
        if state.oldest_pending != suspect:
            suspect, since, end = state.oldest_pending, world.now, None
        overdue = suspect is not None and world.now - since > 2 * SEND_DEADLINE
        if overdue and end is None:
            end = len(world.log)
        if state.open and (end is None or state.position.offset < end):
            yield world.rng.randint(1, 6)
            continue
        yield 1
        asked = world.ledger.shut(state.incarnation)
        world.note(f"shut seen {state.incarnation}: {asked}")
        yield 1
        if asked is None:
            continue
        at = world.append(asked)
        if world.chance(world.faults.send):
            world.start(late_fence(world, asked))
        suspect, since, end = None, 0, None
        for _ in range(10):
            yield 2
            if world.ledger.state().position.offset > at:
                break


def late_fence(world: World, asked: Fence) -> Steps:
    yield world.rng.randint(5, 100)
    world.append(asked)


def put_in_force(world: World, contest: Contest) -> Steps:
    """A PATCH: in the catalogue's log and view, then in the partition, then answered."""
    contest = replace(contest, version=len(world.catalogue) + 1)
    world.catalogue.append(contest)
    yield world.rng.choice([1, 1, 40, 80])
    world.ledger.raise_config(contest.key, contest.version)
    world.note(f"version {contest.version} raised")
    yield 1
    world.patched = max(world.patched, contest.version)
    world.note(f"version {contest.version} answered")
