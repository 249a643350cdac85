"""One seeded run: some minutes of faults, then none, and the checks at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from tests.libs.views.simulation import promise_checks
from tests.libs.views.simulation.clients import client
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.operators import operator
from tests.libs.views.simulation.projectors import catalogue, closer, fencer, may_close, projector
from tests.libs.views.simulation.scenarios import changed, some_contest, some_errands
from tests.libs.views.simulation.simulated_system import NONE, Faults, Steps, Violation, World

PATIENCE: Final = 3
SETTLED_WITHIN: Final = 4_000
"""Turns that the world has to settle in once the faults are over."""
SERVICES: Final = projector, fencer, catalogue, closer


def run(seed: int, ledger: Ledger, **protocol: Any) -> World:
    """Run the schedule of `seed`; raises `Violation` with what led to it. `protocol` replaces parts of it."""
    rng = Random(seed)
    trouble = rng.choice([1.0, 1.0, 0.3, 2.0])
    base = Faults()
    faults = replace(
        base, crash=base.crash * trouble, freeze=base.freeze * trouble, restart=base.restart * trouble
    )
    world = World(rng, ledger, faults, **{"may_close": may_close, **protocol})
    world.change(some_contest(rng))
    world.catalogue = world.changes[:]
    world.caches = [world.catalogue[0]] * rng.randint(1, 3)
    try:
        # of their own, so that the others stay what they were
        voids = Random(f"voids {seed}") if seed % 3 == 2 else None
        clock = Random(f"clock {seed}") if seed % 4 == 1 else None
        _play(world, voids, clock)
    except Violation as violation:
        raise Violation("\n".join([f"seed {seed}: {violation}", *world.history[-200:]])) from violation
    return world


def _play(world: World, voids: Random | None, clock: Random | None) -> None:
    rng = world.rng
    for service in SERVICES:
        for _ in range(rng.randint(1, 2)):
            _keep(world, service)
    duration = rng.randint(100, 400)
    starts = [(rng.randrange(duration), errand) for errand in some_errands(rng, world.changes[0])]
    patches = [rng.randrange(duration) for _ in range(rng.randint(0, 3))]
    closings = [rng.randrange(duration) for _ in range(rng.choice([0, 1, 2, 3]))]
    voidings = (
        [] if voids is None else [voids.randrange(duration // 4, duration) for _ in range(voids.randint(1, 4))]
    )
    steps = {} if clock is None else clock_steps(clock, duration)
    for turn in range(duration):
        if turn in steps:
            world.ledger.tick(steps[turn])
            world.note(f"the server's clock steps by {steps[turn]} ms")
        for at, errand in starts:
            if at == turn:
                client(world, errand, PATIENCE)
        for number, at in enumerate(voidings):
            if at == turn and voids is not None:
                world.start(operator(world, voids, f"void{number}"))
        if turn in patches:
            world.change(changed(rng, world.changes[-1]))
        if turn in closings:
            close_or_reopen(world)
        world.turn()
        if world.chance(0.01):
            promise_checks.check_view(world)
    world.faults = NONE
    world.note("the faults are over")
    _drain(world)
    promise_checks.check(world)


def clock_steps(rng: Random, duration: int) -> dict[int, int]:
    """Milliseconds by turn: the server's clock is set wrong, ahead or behind, and right again, while it runs."""
    step = rng.choice([-1, 1, 1, 1]) * rng.randint(30, 30_000)
    wrong = rng.randrange(duration // 2)
    return {wrong: step, wrong + rng.randint(10, duration // 2): -step}


def close_or_reopen(world: World) -> None:
    """Decided in the catalogue, by the version that was read there."""
    contest = world.catalogue[-1]
    if contest.version < len(world.changes):
        return
    if contest.closed:
        world.change(replace(contest, closed=0, reopened=contest.closed))
    else:
        world.change(replace(contest, closed=contest.reopened + 1))


def _keep(world: World, service: Callable[[World], Steps]) -> None:
    """A service that crashed is started again."""
    world.start(service(world), lambda: _keep(world, service))


def _drain(world: World) -> None:
    codes = {service.__code__ for service in SERVICES}

    def serves(steps: Any) -> bool:
        return steps.gi_code in codes

    for _ in range(SETTLED_WITHIN):
        world.turn()
        if all(serves(process.steps) for process in world.processes) and _is_settled(world):
            return
    raise Violation(f"not settled: {world.ledger.state()}, {len(world.log)} records")


def _is_settled(world: World) -> bool:
    state = world.ledger.state()
    if not state.open or state.pending or state.position.offset < len(world.log):
        return False
    contest, closing = world.changes[-1], world.ledger.closing("contest")
    marked = (closing.closed, closing.reopened) == (contest.closed, contest.reopened)
    return marked and len(world.catalogue) == len(world.changes)
