"""The projector's processes: folding, fencing, putting configurations in force, and marking closed contests."""

from typing import Final

from libs.contracts.log_records import Behind, Position
from libs.tally.contest import Contest
from libs.tally.events import ContestClosed, ContestReopened
from libs.views.reply_types import ClosingState
from tests.libs.views.simulation.simulated_system import LOG_ID, SEND_DEADLINE, SimulatedSystem, Steps

CLOCK_TOLERANCE_US: Final = 20_000


def projector(system: SimulatedSystem) -> Steps:
    """Folds on from its last known position. A late one is refused and seeks."""
    at = system.believed_position()
    while True:
        batch = system.log[at.offset : at.offset + system.rng.randint(1, 6)]
        yield system.rng.randint(1, 4)
        if not batch:
            continue
        end = at.offset + len(batch)
        try:
            system.ledger.apply(at, batch, end)
            at = Position(LOG_ID, end)
        except Behind as behind:
            at = behind.stored or Position(LOG_ID, 0)


def fencer(system: SimulatedSystem) -> Steps:
    """Shuts the gate when in doubt, and appends the fence whose fold opens it.

    Patience is by the fencer's own turns. A clock that both the server's and the fencer's say is in the future is
    in doubt, too: after the fence it may go back.
    """
    suspect, since, end = None, 0, None
    while True:
        state = system.ledger.state()
        if state.oldest_pending != suspect:
            suspect, since, end = state.oldest_pending, system.now, None
        overdue = suspect is not None and system.now - since > 2 * SEND_DEADLINE
        if overdue and end is None:
            end = len(system.log)
        clock_is_wrong = state.clock > max(state.now, system.wall_clock()) + CLOCK_TOLERANCE_US
        if state.open and not clock_is_wrong and (end is None or state.position.offset < end):
            yield system.rng.randint(1, 6)
            continue
        yield 1
        asked = system.ledger.shut(state.incarnation, clock_is_wrong)
        catalogue_end = len(system.changes)
        system.note(f"shut seen {state.incarnation}: {asked}")
        yield 1
        if asked is None:
            continue
        system.ledger.need(asked, catalogue_end)
        yield 1
        at = system.append(asked)
        if system.chance(system.faults.send):
            system.start(system.land(asked, system.rng.randint(5, 100)))
        suspect, since, end = None, 0, None
        for _ in range(10):
            yield 2
            if system.ledger.state().position.offset > at:
                break


def catalogue(system: SimulatedSystem) -> Steps:
    """Folds the catalogue's log: a version is raised in the partition first, then seen, then answered."""
    while True:
        at = len(system.catalogue)
        if at == len(system.changes):
            yield 2
            continue
        contest = system.changes[at]
        yield system.rng.choice([1, 1, 1, 40])
        if not system.answers_early:
            system.ledger.raise_config(contest.key, contest.version)
            system.note(f"version {contest.version} raised")
        yield 1
        if len(system.catalogue) == at:
            system.catalogue.append(contest)
            system.note(f"version {contest.version} seen")
            yield 1
            system.patched = max(system.patched, contest.version)
        if system.answers_early:
            yield 30
            system.ledger.raise_config(contest.key, contest.version)


def may_close(system: SimulatedSystem, contest: Contest, state: ClosingState) -> bool:
    """No vote is admitted any more by what held before the closing, and none that was is pending."""
    decided = next(change.version for change in system.catalogue if change.closed == contest.closed)
    in_force = state.in_force is None or state.in_force >= decided
    return state.open and in_force and not state.pending


def closer(system: SimulatedSystem) -> Steps:
    """Appends the mark of a closing once nothing can be counted after it any more, and that of a reopening."""
    while True:
        yield system.rng.randint(1, 6)
        contest = system.catalogue[-1]
        state = system.ledger.closing(contest.key)
        mark: ContestClosed | ContestReopened
        if state.reopened < contest.reopened:
            at_most = (None, 1, 1, 2)[len(system.log) % 4]
            mark = ContestReopened(contest.key, contest.reopened, at_most)
        elif contest.closed and state.closed < contest.closed and system.may_close(system, contest, state):
            mark = ContestClosed(contest.key, contest.closed)
        else:
            continue
        system.note(f"closer sees {state}")
        yield 1
        if system.chance(system.faults.send):
            system.start(system.land(mark, system.rng.randint(5, 100)))
        if not system.chance(system.faults.send):
            system.append(mark)
