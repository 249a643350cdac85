"""Reads of the simulated servers' data by the checks and by scenarios: at once, without faults."""

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from libs.views.valkey.client import Shard
from libs.views.valkey.hash_tags import SLOTS, slot_of
from tests.simulation.memory_valkey import of_version
from tests.simulation.simulated_valkey import SimulatedServer
from tests.simulation.virtual_loop import BEGIN_S

if TYPE_CHECKING:
    from tests.simulation.world import World


def observe(world: "World", coroutine: Coroutine[Any, Any, Any]) -> Any:
    """Return the result of reads by an `Observer`; no time passes."""
    task = world.loop.start(world.operator.process, coroutine)
    world.loop.run_until(task.done, world.loop.now)
    return task.result()


def latest_clock(world: "World", server: SimulatedServer, until: float) -> float:
    """Return the latest time that a server's clock had shown until a time of the loop."""
    steps = [(at, ahead) for at, its, ahead in world.clocks if its is server]
    steps.append((until, server.process.clock_ahead_s))
    return BEGIN_S + max(min(at, until) + ahead for at, ahead in steps) + 0.002


class Observer:
    """A `Valkey` that answers at once, without faults."""

    is_cluster = False

    def __init__(self, world: "World") -> None:
        self._servers = world.deployment.servers
        self._newer = world.deployment.live_version
        self._shards = [Shard(_OneServer(server), [(0, SLOTS - 1)]) for server in self._servers]

    async def call(self, *command: Any) -> Any:
        key = command[3] if command[0] in ("FCALL", "FCALL_RO") else command[1]
        return self.server(str(key)).backend.execute(of_version(command, self._newer))

    async def shards(self) -> list[Shard]:
        return self._shards

    def server_of(self, key: str, /) -> object:
        return self.server(key).name

    def server(self, key: str) -> SimulatedServer:
        return self._servers[slot_of(key.encode()) * len(self._servers) // SLOTS]


class _OneServer(Observer):
    """One of the servers."""

    def __init__(self, server: SimulatedServer) -> None:
        self._server = server

    async def call(self, *command: Any) -> Any:
        return self._server.backend.execute(command)  # commands without a version
