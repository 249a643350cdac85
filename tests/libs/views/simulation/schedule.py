"""One seeded run: some minutes of faults, then none, and the checks at its end."""

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.libs.views.simulation import promise_checks
from tests.libs.views.simulation.clients import client
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.operators import operator
from tests.libs.views.simulation.projectors import (
    catalogue,
    closer,
    fencer,
    may_close,
    projector,
)
from tests.libs.views.simulation.scenarios import changed, some_contest, some_errands
from tests.libs.views.simulation.simulated_system import NONE, Faults, SimulatedSystem, Steps, Violation

PATIENCE: Final = 3
SETTLED_WITHIN: Final = 4_000
"""Turns that the system has to settle in once the faults are over."""
SERVICES: Final = projector, fencer, catalogue, closer


def run(seed: int, ledger: Ledger, **protocol: Any) -> SimulatedSystem:
    """Run the schedule of `seed`; raises `Violation` with what led to it. `protocol` replaces parts of it."""
    rng = Random(seed)
    trouble = rng.choice([1.0, 1.0, 0.3, 2.0])
    base = Faults()
    faults = replace(
        base, crash=base.crash * trouble, freeze=base.freeze * trouble, restart=base.restart * trouble
    )
    system = SimulatedSystem(rng, ledger, faults, **{"may_close": may_close, **protocol})
    system.change(some_contest(rng))
    system.catalogue = system.changes[:]
    system.caches = [system.catalogue[0]] * rng.randint(1, 3)
    try:
        # of their own, so that the others stay what they were
        voids = Random(f"voids {seed}") if seed % 3 == 2 else None
        clock = Random(f"clock {seed}") if seed % 4 == 1 else None
        _play(system, voids, clock)
    except Violation as violation:
        raise Violation("\n".join([f"seed {seed}: {violation}", *system.history[-200:]])) from violation
    return system


def _play(system: SimulatedSystem, voids: Random | None, clock: Random | None) -> None:
    rng = system.rng
    for service in SERVICES:
        for _ in range(rng.randint(1, 2)):
            _keep(system, service)
    duration = rng.randint(100, 400)
    starts = [(rng.randrange(duration), errand) for errand in some_errands(rng, system.changes[0])]
    patches = [rng.randrange(duration) for _ in range(rng.randint(0, 3))]
    closings = [rng.randrange(duration) for _ in range(rng.choice([0, 1, 2, 3]))]
    voidings = (
        [] if voids is None else [voids.randrange(duration // 4, duration) for _ in range(voids.randint(1, 4))]
    )
    steps = {} if clock is None else clock_steps(clock, duration)
    for turn in range(duration):
        if turn in steps:
            system.ledger.tick(steps[turn])
            system.note(f"the server's clock steps by {steps[turn]} ms")
        for at, errand in starts:
            if at == turn:
                client(system, errand, PATIENCE)
        for number, at in enumerate(voidings):
            if at == turn and voids is not None:
                system.start(operator(system, voids, f"void{number}"))
        if turn in patches:
            system.change(changed(rng, system.changes[-1]))
        if turn in closings:
            close_or_reopen(system)
        system.turn()
        if system.chance(0.01):
            promise_checks.check_view(system)
    system.faults = NONE
    system.note("the faults are over")
    _drain(system)
    promise_checks.check(system)


def clock_steps(rng: Random, duration: int) -> dict[int, int]:
    """Milliseconds by turn: the server's clock is set wrong, ahead or behind, and right again, while it runs."""
    step = rng.choice([-1, 1, 1, 1]) * rng.randint(30, 30_000)
    wrong = rng.randrange(duration // 2)
    return {wrong: step, wrong + rng.randint(10, duration // 2): -step}


def close_or_reopen(system: SimulatedSystem) -> None:
    """Decided in the catalogue, by the version that was read there."""
    contest = system.catalogue[-1]
    if contest.version < len(system.changes):
        return
    if contest.closed:
        system.change(replace(contest, closed=0, reopened=contest.closed))
    else:
        system.change(replace(contest, closed=contest.reopened + 1))


def _keep(system: SimulatedSystem, service: Callable[[SimulatedSystem], Steps]) -> None:
    """A service that crashed is started again."""
    system.start(service(system), lambda: _keep(system, service))


def _drain(system: SimulatedSystem) -> None:
    codes = {service.__code__ for service in SERVICES}

    def serves(steps: Any) -> bool:
        return steps.gi_code in codes

    for _ in range(SETTLED_WITHIN):
        system.turn()
        if all(serves(process.steps) for process in system.processes) and _is_settled(system):
            return
    raise Violation(f"not settled: {system.ledger.state()}, {len(system.log)} records")


def _is_settled(system: SimulatedSystem) -> bool:
    state = system.ledger.state()
    if not state.open or state.pending or state.position.offset < len(system.log):
        return False
    contest, closing = system.changes[-1], system.ledger.closing("contest")
    marked = (closing.closed, closing.reopened) == (contest.closed, contest.reopened)
    return marked and len(system.catalogue) == len(system.changes)
