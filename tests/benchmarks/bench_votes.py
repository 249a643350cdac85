"""Single-vote POST against a service of the same work, others of less, and a bare ASGI answer.

`python -m tests.benchmarks.bench_votes [rounds] [--connections N]... [--workers N]... [--seconds N]`: everything
on this machine, all servers loaded in turn. Two workers are two gateways, or two processes of the peer. Without
options it takes minutes; `3 --connections 64 --connections 256` is the short way to see what a change brought.
"""

import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from libs.contracts.topics import Topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import finish, run
from tests.benchmarks.figures import EQUAL
from tests.benchmarks.load import Load, weighed
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale, Size
from tests.benchmarks.stack import further_gateway, process, uvicorn, whole_service
from tests.support.clients.voting import Api, running

SCRIPT = """
local n, base, participants = 0, 0, {{{participants}}}
function init() -- also loads of the same second differ
  math.randomseed(os.time() + tonumber(string.match(tostring({{}}), "0x(%x+)"), 16) % 1e6)
  base = math.random(1, 1e9)
end
function request()
  n = n + 1
  local voter = math.floor(n / 3)
  local address = (base + voter) % 16777216
  local body = string.format('{{"participant_key":"%s","voter_id":"u%d-%d"{address}}}',
    participants[n % #participants + 1], base, voter, address / 65536, address / 256 % 256, address % 256)
  return wrk.format("POST", "/contests/{contest}/votes",
    {{["authorization"] = "{authorization}", ["content-type"] = "application/json"}}, body)
end
"""
REDIS, KAFKA, BARE = "FastAPI + Redis transaction", "FastAPI + aiokafka send_and_wait", "bare ASGI"
PEERS = {
    EQUAL: "equal_work:voting",
    REDIS: "vote_servers:counting",
    KAFKA: "vote_servers:appending",
    BARE: "vote_servers:bare",
}
LIMITED, UNLIMITED = "with an address limit", "without an address limit"
ADDRESS = ',"ip":"10.%d.%d.%d"'
PARTS = {
    OURS: ("gateway", "projector", "Valkey", "Kafka"),
    LIMITED: ("gateway", "projector", "Valkey", "Kafka"),
    EQUAL: ("peer", "Valkey", "Kafka"),
    REDIS: ("peer", "Valkey"),
    KAFKA: ("peer", "Kafka"),
    BARE: ("peer",),
}
"""Processes that have a part in the work; the others idle."""
NOTES = {
    EQUAL: "vote ids, limits, log, counts, unique voters, by a script, a producer and a consumer; what a killed "
    "process or a lost answer leaves behind stays; no close, no replay, no receipts",
    REDIS: "no log, no limits, no vote ids; unique voters per contest; durable as Valkey's append-only file",
    KAFKA: "log only: no counts, no limits, no vote ids",
    BARE: "no work at all",
}
RATE_GOALS: dict[tuple[int, int], tuple[Goal, ...]] = {
    (64, 1): (Goal(3.0, EQUAL), Goal(3.0, EQUAL, "cpu"), Goal(2.0, REDIS)),
    (256, 1): (Goal(3.0, EQUAL), Goal(3.0, EQUAL, "cpu"), Goal(3.0, REDIS)),
    (256, 2): (Goal(2.5, EQUAL),),
}
"""By (connections, workers)."""
TAIL_GOALS = (Goal(1.0, EQUAL), Goal(1.0, REDIS), Goal(1.0, KAFKA))
LIMITED_GOALS = (Goal(0.9, UNLIMITED),)
WITH_LIMIT = ((64, 1), (256, 1))
"""Loads, as (connections, workers), that are repeated with an address limit."""
CPU_GOALS_US = {1: {"servers": 600}, 64: {"servers": 160, "gateway": 103}, 256: {"servers": 130, "gateway": 76}}
"""CPU time per vote by connections, of all servers and of the gateway alone."""
ALONE_MS = Goal(0.7)
"""Median time of a vote of a single client."""


@dataclass(frozen=True)
class Plan:
    """Loads to measure: (connections, workers) pairs, `rounds` times, each of `seconds`."""

    loads: Sequence[tuple[int, int]]
    rounds: int
    seconds: int


def plan(scale: Scale) -> Plan:
    loads = scale.pick([(64, 1)], [(1, 1), (64, 1), (256, 1), (64, 2), (256, 2)])
    return Plan(loads, scale.rounds, scale.pick(2, 3))


async def measure(scale: Scale) -> list[Measurement]:
    return await measure_plan(plan(scale))


async def measure_plan(chosen: Plan) -> list[Measurement]:
    found: list[Measurement] = []
    async with whole_service() as (supervisor, api):
        script, limited = await vote_script(api), await vote_script(api, limited=True)
        for workers in sorted({workers for _, workers in chosen.loads}):
            async with servers(supervisor, workers) as urls:
                for each in urls.values():
                    await weighed(each, script, 64, 2, ())
                for connections in [number for number, its in chosen.loads if its == workers]:
                    of_load = [name for name in urls if name != LIMITED or (connections, workers) in WITH_LIMIT]
                    loads: dict[str, list[Load]] = {name: [] for name in of_load}
                    for name in of_load * chosen.rounds:
                        its = limited if name == LIMITED else script
                        load = await weighed(urls[name], its, connections, chosen.seconds, PARTS[name])
                        loads[name].append(load)
                    found += measurements(connections, workers, loads)
    return found


async def vote_script(api: Api, *, limited: bool = False) -> str:
    """Return the script of a load on a new contest: three votes a voter, for 100 participants in turn.

    With `limited`, the contest has an address limit, and each voter an address.
    """
    config: dict[str, Any] = {"ip_restriction_per_participant": 5} if limited else {}
    contest = await api.contest(participants=100, body=running(free={"max_participant": 3}, **config))
    return SCRIPT.format(
        participants=", ".join(f'"{key}"' for key in contest.participants),
        contest=contest.key,
        authorization=api.client.headers["authorization"],
        address=ADDRESS if limited else "",
    )


@asynccontextmanager
async def servers(supervisor: Supervisor, workers: int) -> AsyncIterator[dict[str, list[str]]]:
    """Tallykeeper and all peers with so many workers: their addresses."""
    async with AsyncExitStack() as running_servers:
        urls = {OURS: [supervisor.stack["base_url"]]}
        for _ in range(workers - 1):
            urls[OURS].append((await running_servers.enter_async_context(further_gateway(supervisor)))[0])
        urls[LIMITED] = urls[OURS]
        for name in PEERS:
            urls[name] = [await running_servers.enter_async_context(peer(supervisor, name, workers))]
        yield urls


@asynccontextmanager
async def peer(supervisor: Supervisor, name: str, workers: int = 1) -> AsyncIterator[str]:
    """A peer on the service's Kafka and Valkey, with a topic of its own: its address."""
    stack, app = supervisor.stack, PEERS[name]
    topic = Topic(f"peer-{app.partition(':')[2]}", stack["partitions"])
    await create_topics(KafkaSettings(kafka_bootstrap_servers=stack["kafka"]), [topic])
    environment = {
        "PEER_VALKEY_URL": stack["valkey"],
        "PEER_KAFKA": stack["kafka"],
        "PEER_PARTITIONS": str(stack["partitions"]),
        "PEER_TOPIC": topic.name,
    }
    async with AsyncExitStack() as running_processes:
        server = uvicorn(f"tests.benchmarks.peers.{app}", workers, **environment)
        url, _ = await running_processes.enter_async_context(server)
        if name == EQUAL:
            consumer = [sys.executable, "-m", "tests.benchmarks.peers.equal_work"]
            await running_processes.enter_async_context(process(consumer, environment))
        yield url


def measurements(connections: int, workers: int, loads: dict[str, list[Load]]) -> list[Measurement]:
    name = f"{connections} client{'s' * (connections > 1)}, {workers} worker{'s' * (workers > 1)}"
    rates = {each: Party(each, [load.rate for load in its], NOTES.get(each, "")) for each, its in loads.items()}
    tails = {each: Party(each, [load.tail for load in its], NOTES.get(each, "")) for each, its in loads.items()}
    peers = EQUAL, REDIS, KAFKA
    rate = Measurement(
        name,
        "votes/s",
        "higher",
        rates[OURS],
        [rates[peer] for peer in peers],
        rates[BARE],
        RATE_GOALS.get((connections, workers), ()),
    )
    tail = Measurement(
        f"{name}: p99", "ms", "lower", tails[OURS], [tails[peer] for peer in peers], tails[BARE], TAIL_GOALS
    )
    found = [rate, tail]
    if connections == 1:
        medians = {each: [Run(load.p50) for load in its] for each, its in loads.items()}
        ours, others = Party(OURS, medians[OURS]), [Party(peer, medians[peer], NOTES[peer]) for peer in peers]
        found.append(Measurement(f"{name}: p50", "ms", "lower", ours, others, goals=(ALONE_MS,)))
    if LIMITED in rates:
        limited = Party(LIMITED, rates[LIMITED].runs)
        unlimited = Party(UNLIMITED, rates[OURS].runs)
        found.append(
            Measurement(f"{name}: address limit", "votes/s", "higher", limited, [unlimited], goals=LIMITED_GOALS)
        )
    return [*found, *cpu_measurements(name, connections, workers, loads[OURS])]


def cpu_measurements(name: str, connections: int, workers: int, loads: Sequence[Load]) -> list[Measurement]:
    """Return the CPU time per vote of all servers and of the gateway, where there are goals for it."""
    goals = CPU_GOALS_US.get(connections, {}) if workers == 1 else {}
    found = []
    for part, bound in goals.items():
        runs = [
            Run(sum(load.cpu_us.values()) if part == "servers" else load.cpu_us.get(part, 0.0)) for load in loads
        ]
        ours = Party(OURS, runs)
        found.append(Measurement(f"{name}: CPU of the {part}", "µs", "lower", ours, goals=(Goal(bound),)))
    return found


def main(
    rounds: Annotated[int | None, typer.Argument(help="Rounds, taken in turn by all servers.")] = None,
    connections: Annotated[list[int] | None, typer.Option(help="Connections, instead of the table's.")] = None,
    workers: Annotated[list[int] | None, typer.Option(help="Processes of those connections; default: 1.")] = None,
    seconds: Annotated[int | None, typer.Option(help="Duration of one load.")] = None,
    size: Annotated[Size, typer.Option(help="Amount of work.")] = Size.FULL,
    json: Annotated[Path | None, typer.Option(help="File for the figures, instead of a table.")] = None,
) -> None:
    planned = plan(Scale.of(size, rounds))
    if connections or workers:
        loads = [(number, its) for its in workers or [1] for number in connections or [64, 256]]
        planned = replace(planned, loads=loads)
    planned = replace(planned, seconds=seconds or planned.seconds)
    finish("POST of one vote", run(lambda _: measure_plan(planned), Scale()), json)


if __name__ == "__main__":
    typer.run(main)
