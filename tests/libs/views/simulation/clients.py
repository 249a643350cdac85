"""Voters and payment platforms: they repeat a request until its outcome is definite."""

from __future__ import annotations

from libs.tally.errors import TallyError
from tests.libs.views.simulation.client_requests import Errand
from tests.libs.views.simulation.driver import UNKNOWN, Driver
from tests.libs.views.simulation.simulated_system import Steps, World


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
    outcome = yield from Driver(world, worker, errand).run()
    world.note(f"{errand} is answered {outcome!r}")
    if isinstance(outcome, UNKNOWN):
        return
    answered.append(True)
    if not isinstance(outcome, TallyError):
        errand.succeeded(world, outcome)
