"""The plan of a schedule: requests, operators' actions and faults, each by a random stream of its own.

Faults come at a time, or at a moment: when a process has sent, or a server has executed, a certain call. Requests
gather around the times of faults.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, Final

from tests.simulation import clients, replays, sources
from tests.simulation.clients import Client
from tests.simulation.deployment import Service
from tests.simulation.scenarios import Scenario
from tests.simulation.stage import Stage
from tests.simulation.virtual_loop import SimulatedProcess

if TYPE_CHECKING:
    from tests.simulation.world import World

ACTIVE_S: Final = 6.0
"""Time in which requests begin and faults happen."""
MOMENTS: Final = (
    *("votes_reserve", "votes_reserve", "votes_reserve", "votes_confirm", "votes_remove", "votes_apply"),
    *("votes_apply", "votes_shut", "votes_need", "votes_raise", "votes_closing", "catalogue_apply", "append"),
)
"""Calls at which a fault may come, by their weights."""
KINDS: Final = ("restart", "promotion", "promotion", "restore", "empty")
"""Failures of a server of the views."""


@dataclass(frozen=True, slots=True)
class Item:
    """Something planned: a request, an operator's action or a fault."""

    at: float
    name: str
    do: Callable[[], None]


def plan(world: "World") -> list[Item]:
    """Return all that is planned."""
    amounts = world.streams["amounts"]
    played = [] if world.scenario is None else [_scenario(world, world.scenario)]
    if world.is_alone:
        return played
    faults = _faults(world, amounts)
    times = [item.at for item in faults]
    replayed = world.shape.has_replays and world.scenario is None
    kinds: tuple[tuple[str, bool, Sequence[int], float, Callable[[Client], None]], ...] = (
        ("vote", True, range(8, 24), 0.0, clients.vote),
        ("change", True, (0, 0, 1, 2, 3), 0.3, clients.change),
        ("void", True, (0, 0, 1, 2), 0.5, clients.void),
        ("reopening", True, (0, 1, 1, 2), 2.0, clients.reopen),
        ("batch", True, (0, 0, 1, 2), 0.0, clients.batch),
        ("purchase", world.shape.has_purchases, range(2, 6), 0.0, clients.purchase),
        ("read", world.has_reads, range(2, 8), 0.3, clients.ask),
        ("report", world.shape.has_sources, range(3, 9), 0.0, sources.report),
        ("source", world.shape.has_sources, (0, 0, 1), 0.5, sources.change),
        ("replay", replayed, (1, 1, 2), 0.3, replays.rebuild),
    )
    items = []
    for kind, is_used, counts, earliest, do in kinds:
        for number in range(amounts.choice(counts) if is_used else 0):
            client = world.client(f"{kind} {number}")
            at = client.rng.uniform(earliest, ACTIVE_S)
            if times and client.rng.random() < 0.6:
                at = max(earliest, client.rng.choice(times) + client.rng.uniform(-0.4, 0.4))
            items.append(Item(at, client.name, partial(do, client)))
    return played + items + faults


def _scenario(world: "World", scenario: Scenario) -> Item:
    client = world.client("scenario")

    def begin() -> None:
        client.run(scenario.play(Stage(client)))

    return Item(client.rng.uniform(0.0, 0.2), "scenario", begin)


def _faults(world: "World", amounts: Random) -> list[Item]:
    kinds: tuple[tuple[str, Sequence[int], Callable[[World, str, Random], list[Item]]], ...] = (
        ("kill", (0, 0, 1, 2), _kill),
        ("freeze", (0, 0, 1, 2), _freeze),
        ("stumble", (0, 1, 2, 3, 4), _stumble),
        ("valkey", (0, 0, 1, 1, 2), _fail_valkey),
        ("leader", (0, 0, 0, 1), _change_leader),
    )
    items: list[Item] = []
    for kind, counts, items_of in kinds:
        for number in range(amounts.choice(counts)):
            name = f"{kind} {number}"
            items += items_of(world, name, world.streams[name])
    return items


def _kill(world: "World", name: str, rng: Random) -> list[Item]:
    """A gateway or a projector is killed, and comes back."""
    victim: Service = rng.choice(world.services)
    return [Item(rng.uniform(0.2, ACTIVE_S), name, lambda: world.restart_later(victim, rng.uniform(0.05, 2.0)))]


def _freeze(world: "World", name: str, rng: Random) -> list[Item]:
    """A process or a server freezes for a while."""
    victims: list[Any] = [*world.gateways, *world.projectors, *world.deployment.servers]
    victim, length = rng.choice(victims), rng.choice([rng.uniform(0.05, 1.0), rng.uniform(1.0, 9.0)])
    return [Item(rng.uniform(0.2, ACTIVE_S), name, lambda: world.freeze(victim.process, length))]


def _stumble(world: "World", name: str, rng: Random) -> list[Item]:
    """A process freezes or is killed at a certain one of its calls; meanwhile a server may fail."""
    moment, number = rng.choice(MOMENTS), rng.choice([1, 1, 2, 3, 5])
    length, dies = rng.choice([0.3, 2.0, 3.0, 4.5]), rng.random() < 0.25
    server, kind, back = rng.choice(world.deployment.servers), rng.choice(KINDS), rng.choice([0.0, 0.05, 0.5])
    fails, delay = rng.random() < 0.6, rng.choice([0.0, 0.0, 0.002])

    def stumble(process: SimulatedProcess) -> None:
        victim = world.service_of(process)
        if victim is None:
            return
        data = server.backend.snapshot()
        if dies:
            world.loop.call_later(delay, world.restart_later, victim, length)
        else:
            world.loop.call_later(delay, world.freeze, process, length)
        if fails:
            world.loop.call_later(delay + rng.uniform(0.0, 0.3), world.fail, server, kind, data, back)

    return [Item(rng.uniform(0.0, ACTIVE_S), name, lambda: world.deployment.at_moment(moment, number, stumble))]


def _fail_valkey(world: "World", name: str, rng: Random) -> list[Item]:
    """A server restarts, is replaced by a replica, or comes back with older data or none; or its clock steps."""
    server = rng.choice(world.deployment.servers)
    kind, back = rng.choice([*KINDS, "clock"]), rng.choice([0.0, 0.05, 0.5, 2.0])
    at = rng.uniform(0.4, ACTIVE_S)
    lag_s = rng.choice([0.0, 0.003, 0.05, 0.8]) if kind != "restore" else rng.uniform(0.1, at)
    moment, number = rng.choice(MOMENTS), rng.choice([1, 2, 3])
    lost, step = rng.choice([0, 1, 2]), rng.choice([-20.0, -2.0, 2.0, 20.0])
    kept: list[Any] = []

    def remember(_: object = None) -> None:
        kept.append(server.backend.snapshot())

    def fail(_: object = None) -> None:
        if kind == "clock":
            world.step_clock(server, step)
            world.note(f"{server.name}: the clock steps by {step} s")
        else:
            world.fail(server, kind, kept[-1] if kept and lag_s else None, back)

    def fail_at_moment() -> None:
        """Keep the data as of one call, and lose all after them at a later one."""
        world.deployment.at_moment(moment, number, remember)
        world.deployment.at_moment(moment, number + lost, fail)

    if rng.random() < 0.6:
        return [Item(at, name, fail_at_moment)]
    return [Item(max(0.0, at - lag_s), f"{name} (kept)", remember), Item(at, name, fail)]


def _change_leader(world: "World", name: str, rng: Random) -> list[Item]:
    topic = rng.choice([world.votes_topic, world.catalogue_topic])
    number, length = rng.randrange(topic.partitions), rng.choice([0.1, 0.6, 2.5])

    def change() -> None:
        world.note(f"{topic.name}/{number} has no leader for {length} s")
        world.deployment.log(topic, number).leaderless_until = world.loop.now + length

    return [Item(rng.uniform(0.2, ACTIVE_S), name, change)]
