"""One seeded run: a few voters, some minutes of trouble, then none, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

from libs.tally.commands import CastVote
from libs.tally.contest import Contest, Limits
from tests.libs.views.simulation import truth
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.projectors import fencer, projector, put_in_force
from tests.libs.views.simulation.workers import client
from tests.libs.views.simulation.world import NONE, Faults, Steps, Violation, World
from tests.support.builders import a_contest, a_vote, content_hash

PATIENCE = 3
SETTLED_WITHIN = 4_000
"""Turns that the world has to settle in once the faults are over."""


def run(seed: int, ledger: Ledger, confirms_after_ack: bool = True) -> World:
    """Run the schedule of `seed`; raises `Violation` with what led to it."""
    rng = Random(seed)
    trouble = rng.choice([1.0, 1.0, 0.3, 2.0])
    base = Faults()
    faults = replace(
        base, crash=base.crash * trouble, freeze=base.freeze * trouble, restart=base.restart * trouble
    )
    world = World(rng, ledger, faults, confirms_after_ack)
    world.catalogue = [some_contest(rng)]
    world.caches = [world.catalogue[0]] * rng.randint(1, 3)
    try:
        _play(world)
    except Violation as violation:
        raise Violation("\n".join([f"seed {seed}: {violation}", *world.history[-200:]])) from violation
    return world


def _play(world: World) -> None:
    rng = world.rng
    for _ in range(rng.randint(1, 2)):
        _keep(world, projector)
        _keep(world, fencer)
    duration = rng.randint(100, 400)
    starts = [(rng.randrange(duration), command) for command in some_commands(rng)]
    patches = [rng.randrange(duration) for _ in range(rng.randint(0, 3))]
    for turn in range(duration):
        for at, command in starts:
            if at == turn:
                client(world, command, PATIENCE)
        if turn in patches:
            world.start(put_in_force(world, some_contest(rng)))
        world.turn()
        if world.chance(0.01):
            truth.check_view(world)
    world.faults = NONE
    world.note("the faults are over")
    _drain(world)
    truth.check(world)


def _keep(world: World, service: Callable[[World], Steps]) -> None:
    """A service that crashed is started again."""
    world.start(service(world), lambda: _keep(world, service))


def _drain(world: World) -> None:
    services = 0
    for _ in range(SETTLED_WITHIN):
        world.turn()
        services = sum(p.steps.gi_code in (projector.__code__, fencer.__code__) for p in world.processes)
        if len(world.processes) == services:
            state = world.ledger.state()
            if state.open and not state.pending and state.position.offset == len(world.log):
                return
    raise Violation(f"not settled: {world.ledger.state()}, {len(world.log)} records")


def some_contest(rng: Random) -> Contest:
    def limits() -> Limits:
        return Limits(rng.choice([-1, 0, 1, 2, 3, 5]), rng.choice([-1, -1, 2, 4, 6]))

    status = dict.fromkeys("ab", "approved")
    if rng.random() < 0.15:
        status["b"] = "rejected"
    started = None if rng.random() < 0.05 else 1
    return a_contest(free=limits(), paid=limits(), participants=status, start=started)


def some_commands(rng: Random) -> list[CastVote]:
    """Requests of two voters; some come twice, some with other content under the same id."""
    commands: list[CastVote] = []
    for _ in range(rng.randint(4, 12)):
        count, participant, source = (
            rng.choice([1, 1, 1, 2, 3]),
            rng.choice("ab"),
            rng.choice(["c-free", "c-paid"]),
        )
        command = a_vote(
            participant,
            count,
            voter=rng.choice(["anna", "bert"]),
            vote_id=f"id{rng.randrange(8)}",
            source=source,
            content=content_hash(participant, count, source),
        )
        commands += [command] * rng.choice([1, 1, 1, 2, 3])
    return commands
