"""The projector's processes: folding, fencing, putting configurations in force, and marking closed contests."""

from __future__ import annotations

from typing import Final

from libs.contracts.log_records import Behind, Position
from libs.tally.contest import Contest
from libs.tally.events import ContestClosed, ContestReopened
from libs.views.replies import ClosingState
from tests.libs.views.simulation.simulated_system import LOG_ID, SEND_DEADLINE, Steps, World

CLOCK_TOLERANCE_US: Final = 20_000


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
    """Shuts the gate when in doubt, and appends the fence whose fold opens it.

    Patience is by the fencer's own turns. A clock that both the server's and the fencer's say is in the future is
    in doubt, too: behind the fence it may go back.
    """
    suspect, since, end = None, 0, None
    while True:
        state = world.ledger.state()
        if state.oldest_pending != suspect:
            suspect, since, end = state.oldest_pending, world.now, None
        overdue = suspect is not None and world.now - since > 2 * SEND_DEADLINE
        if overdue and end is None:
            end = len(world.log)
        clock_is_wrong = state.clock > max(state.now, world.wall_clock()) + CLOCK_TOLERANCE_US
        if state.open and not clock_is_wrong and (end is None or state.position.offset < end):
            yield world.rng.randint(1, 6)
            continue
        yield 1
        asked = world.ledger.shut(state.incarnation, clock_is_wrong)
        catalogue_end = len(world.changes)
        world.note(f"shut seen {state.incarnation}: {asked}")
        yield 1
        if asked is None:
            continue
        world.ledger.need(asked, catalogue_end)
        yield 1
        at = world.append(asked)
        if world.chance(world.faults.send):
            world.start(world.land(asked, world.rng.randint(5, 100)))
        suspect, since, end = None, 0, None
        for _ in range(10):
            yield 2
            if world.ledger.state().position.offset > at:
                break


def catalogue(world: World) -> Steps:
    """Folds the catalogue's log: a version is raised in the partition first, then seen, then answered."""
    while True:
        at = len(world.catalogue)
        if at == len(world.changes):
            yield 2
            continue
        contest = world.changes[at]
        yield world.rng.choice([1, 1, 1, 40])
        world.ledger.raise_config(contest.key, contest.version)
        world.note(f"version {contest.version} raised")
        yield 1
        if len(world.catalogue) == at:
            world.catalogue.append(contest)
            world.note(f"version {contest.version} seen")
            yield 1
            world.patched = max(world.patched, contest.version)


def may_close(world: World, contest: Contest, state: ClosingState) -> bool:
    """Nobody is admitted any more by what held before the closing, and nobody who was is pending."""
    decided = next(change.version for change in world.catalogue if change.closed == contest.closed)
    in_force = state.in_force is None or state.in_force >= decided
    return state.open and in_force and not state.pending


def closer(world: World) -> Steps:
    """Appends the mark of a closing once nothing can be counted behind it any more, and that of a reopening."""
    while True:
        yield world.rng.randint(1, 6)
        contest = world.catalogue[-1]
        state = world.ledger.closing(contest.key)
        mark: ContestClosed | ContestReopened
        if state.reopened < contest.reopened:
            at_most = (None, 1, 1, 2)[len(world.log) % 4]
            mark = ContestReopened(contest.key, contest.reopened, at_most)
        elif contest.closed and state.closed < contest.closed and world.may_close(world, contest, state):
            mark = ContestClosed(contest.key, contest.closed)
        else:
            continue
        world.note(f"closer sees {state}")
        yield 1
        if world.chance(world.faults.send):
            world.start(world.land(mark, world.rng.randint(5, 100)))
        if not world.chance(world.faults.send):
            world.append(mark)
