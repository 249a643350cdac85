"""Voters and payment platforms: they repeat a request until its outcome is definite."""

from libs.tally.errors import TallyError
from tests.libs.views.simulation.client_requests import Errand
from tests.libs.views.simulation.driver import UNKNOWN, Driver
from tests.libs.views.simulation.simulated_system import SimulatedSystem, Steps


def client(system: SimulatedSystem, errand: Errand, patience: int) -> None:
    """Send the request; unless it is answered for certain, send the same again."""
    worker = system.rng.randrange(len(system.caches))
    answered: list[bool] = []

    def again() -> None:
        if not answered and patience and system.chance(0.8):
            client(system, errand, patience - 1)

    system.start(attempt(system, worker, errand, answered), again, system.now + system.rng.randint(0, 20))


def attempt(system: SimulatedSystem, worker: int, errand: Errand, answered: list[bool]) -> Steps:
    """One request. `answered` stays empty when the outcome is unknown to the client (503, or a crash)."""
    outcome = yield from Driver(system, worker, errand).run()
    system.note(f"{errand} is answered {outcome!r}")
    if isinstance(outcome, UNKNOWN):
        return
    answered.append(True)
    if not isinstance(outcome, TallyError):
        errand.succeeded(system, outcome)
