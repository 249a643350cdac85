"""Cost by number of partitions and of gateways: `python -m tests.benchmarks.bench_partitions [rounds]`.

Each round starts the whole service with each number of partitions in turn. The figures are CPU time by process: a
second while nothing happens, with and without a stream of counts, and of a vote by one gateway and by two, which
share the clients. With `--size quick` only the idle costs matter: there are too few votes.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from tests.benchmarks.alone import alone
from tests.benchmarks.bench_votes import vote_script
from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.listeners import Listeners
from tests.benchmarks.load import weighed
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import further_gateway, whole_service
from tests.support.clients.voting import Api, running

PARTITIONS: Final = (16, 64, 256)
CLIENTS: Final = (64, 256)
TURNS: Final = ((1, 2), (2, 1))
"""Numbers of gateways in the order of their loads: what else the machine does weighs on both alike."""
PARTS: Final = ("gateway", "projector", "Valkey", "Kafka")
IDLE, STREAM = "idle", "idle with a stream"
WATCHERS: Final = ("gateway", "projector", "Valkey")
"""Processes whose idle cost must not grow with the partitions."""
FLAT_BY_PARTITIONS, FLAT_BY_GATEWAYS = 1.3, 1.15
SETTLE_S: Final = 5.0
"""Time after the start in which its work ends."""


@dataclass(frozen=True)
class Costs:
    """CPU time by partitions: a second of waiting by its kind, a vote by clients and gateways."""

    idle: defaultdict[tuple[str, int], list[Run]] = field(default_factory=lambda: defaultdict(list))
    votes: defaultdict[tuple[int, int, int], list[Run]] = field(default_factory=lambda: defaultdict(list))


async def measure(scale: Scale) -> list[Measurement]:
    numbers, costs = scale.pick((16, 64), PARTITIONS), Costs()
    for _ in range(min(2, scale.rounds)):
        for partitions in numbers:
            async with whole_service(partitions) as (supervisor, api):
                await wait(costs, partitions, supervisor.stack["base_url"], api, scale)
                async with further_gateway(supervisor) as (other, _):
                    await vote(costs, partitions, [supervisor.stack["base_url"], other], api, scale)
    return [*idle_measurements(costs, numbers), *vote_measurements(costs, numbers)]


async def wait(costs: Costs, partitions: int, url: str, api: Api, scale: Scale) -> None:
    """Weigh the service while nothing happens, then with a subscriber."""
    seconds = scale.pick(5, 12)
    await asyncio.sleep(SETTLE_S)
    costs.idle[IDLE, partitions].append(await weighed_idle(seconds))
    async with stream(url, api):
        costs.idle[STREAM, partitions].append(await weighed_idle(seconds))


@asynccontextmanager
async def stream(url: str, api: Api) -> AsyncIterator[None]:
    """One subscriber of a contest's counts."""
    contest = await api.contest(participants=100, body=running())
    key = api.client.headers["authorization"].removeprefix("Bearer ")
    listeners = Listeners(int(url.rsplit(":", 1)[1]), f"{contest.path}/vote_updates/stream", key)
    await listeners.connect(1)
    try:
        yield
    finally:
        listeners.disconnect()


async def weighed_idle(seconds: float) -> Run:
    meter = CpuMeter()
    await asyncio.sleep(seconds)
    used = meter.each_us(seconds, PARTS)
    return Run(sum(used.values()), used)


async def vote(costs: Costs, partitions: int, urls: Sequence[str], api: Api, scale: Scale) -> None:
    """Weigh votes by one gateway and by two, in short turns."""
    script, seconds = await vote_script(api), scale.pick(1, 2)
    await weighed(urls, script, 64, scale.pick(1, 5), ())
    for clients, gateways in [(clients, number) for clients in CLIENTS for turn in TURNS for number in turn]:
        load = await weighed(urls[:gateways], script, clients, seconds, PARTS)
        also = {"votes/s": load.per_s, "errors": load.errors}
        costs.votes[clients, gateways, partitions].append(Run(sum(load.cpu_us.values()), load.cpu_us, also))


def idle_measurements(costs: Costs, numbers: Sequence[int]) -> list[Measurement]:
    """Return the growth of each process's idle cost, in milliseconds of CPU time a second."""
    return [
        grown(
            f"{kind}: {part}",
            "ms of CPU a second",
            {number: [part_of(run, part, 1000) for run in costs.idle[kind, number]] for number in numbers},
        )
        for kind in (IDLE, STREAM)
        for part in WATCHERS
    ]


def vote_measurements(costs: Costs, numbers: Sequence[int]) -> list[Measurement]:
    """Return the growth of Valkey's cost of a vote by partitions, and of all servers' by gateways."""
    found = []
    for clients in CLIENTS:
        by_number = {number: costs.votes[clients, 1, number] for number in numbers}
        of_valkey = {number: [part_of(run, "Valkey") for run in runs] for number, runs in by_number.items()}
        found.append(grown(f"a vote, {clients} clients: Valkey", "µs of CPU a vote", of_valkey))
        found.append(grown(f"a vote, {clients} clients: all servers", "µs of CPU a vote", by_number, bound=None))
        for number in numbers:
            one = Party("1 gateway", costs.votes[clients, 1, number])
            goal = Goal(round(1 / FLAT_BY_GATEWAYS, 2), one.name)
            name = f"a vote, {clients} clients, {number} partitions: 2 gateways"
            ours = Party(OURS, costs.votes[clients, 2, number])
            found.append(Measurement(name, "µs of CPU a vote", "lower", ours, [one], goals=[goal]))
    return found


def grown(
    name: str, unit: str, runs: dict[int, list[Run]], bound: float | None = FLAT_BY_PARTITIONS
) -> Measurement:
    """Compare the most partitions with the fewer."""
    *fewer, most = runs
    parties = [Party(f"{number} partitions", runs[number]) for number in fewer]
    goals = [Goal(round(1 / bound, 2), parties[0].name)] if bound else []
    return Measurement(f"{name}, {most} partitions", unit, "lower", Party(OURS, runs[most]), parties, goals=goals)


def part_of(run: Run, part: str, divisor: float = 1) -> Run:
    return Run(run.cpu_us.get(part, 0.0) / divisor)


if __name__ == "__main__":
    alone("Cost of partitions and gateways", measure)
