"""Cost and delay of streams with thousands of subscribers to one contest.

`python -m tests.benchmarks.bench_streams [rounds]`: three servers, one after the other, say the same to the same
clients: the service as `tally up` runs it, sse-starlette, and bare sockets. A delay is from a POST to its event,
which for the service alone is a vote. CPU time is that of the serving process, per subscriber and event.
"""

import asyncio
import random
import resource
import statistics
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx
import psutil

from libs.local_stack.ports import free_ports
from tests.benchmarks.alone import alone
from tests.benchmarks.cpu import used_s
from tests.benchmarks.listeners import Listeners
from tests.benchmarks.measurement import OURS, Goal, Measurement, Missing, Party, Run, Scale
from tests.benchmarks.peers.environments import Unavailable, script
from tests.benchmarks.stack import START_S, further_gateway, listens, process, whole_service
from tests.support.clients.voting import running
from tests.support.eventually import eventually

PARTICIPANTS = 20
SSE, BARE = "sse-starlette", "bare sockets"
MANY_CONNECTIONS = {"TALLY_HTTP_MAX_CONNECTIONS": "30000", "TALLY_HTTP_MAX_CONNECTIONS_PER_ADDRESS": "30000"}
"""All subscribers have the same address."""
NOTES = {SSE: "no votes, counts or access check", BARE: "no votes, counts, access check or HTTP"}
CPU_GOALS = (Goal(1 / 2.5, BARE),)
DELAY_GOAL_MS, MEMORY_GOAL_KIB = 400.0, 12.0


@dataclass(frozen=True, slots=True)
class Delays:
    """Figures of one server with all its listeners."""

    cpu_us: float
    p50_ms: float
    p99_ms: float
    connected_per_s: float
    kib: float
    """Memory that the process alone has, per listener."""


async def measure(scale: Scale) -> list[Measurement]:
    open_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    listeners = scale.pick(200, min(20_000, open_files - 1_000))
    votes = scale.pick(5, 20 * scale.rounds)
    found: dict[str, Delays] = {}
    missing: list[Missing] = []
    async with whole_service() as (supervisor, api), further_gateway(supervisor, MANY_CONNECTIONS) as (url, pid):
        contest = await api.contest(participants=PARTICIPANTS, body=running())
        template = (await api.client.get(f"{contest.path}/vote_updates")).text
        port = int(url.rsplit(":", 1)[1])
        clients = Listeners(port, f"{contest.path}/vote_updates/stream", supervisor.stack["api_key"])
        found[OURS] = await measured(clients, pid, listeners, votes, lambda number: contest.vote(0, f"v{number}"))
    bare = [sys.executable, "-m", "tests.benchmarks.peers.bare_sockets"]
    found[BARE] = await of_peer(bare, template, listeners, votes)
    try:
        found[SSE] = await of_peer(await script("sse_server.py"), template, listeners, votes)
    except Unavailable as reason:
        missing.append(Missing(SSE, str(reason)))
    return measurements(listeners, found, missing)


async def of_peer(command: list[str], template: str, listeners: int, votes: int) -> Delays:
    async with served(command, template) as (port, pid), httpx.AsyncClient(timeout=60) as client:
        say = partial(_say, client, f"http://127.0.0.1:{port}/say")
        return await measured(Listeners(port, "/stream"), pid, listeners, votes, say)


async def _say(client: httpx.AsyncClient, url: str, count: int) -> None:
    await client.post(url, params={"count": count})


@asynccontextmanager
async def served(command: list[str], template: str) -> AsyncIterator[tuple[int, int]]:
    """A server of its own: its port, and the id of the process that listens."""
    [port] = free_ports(1)
    async with process([*command, str(port), template]) as started:
        await eventually(lambda: listens(port), deadline_s=START_S)
        children = psutil.Process(started.pid).children(recursive=True)  # uv starts Python as its child
        yield port, children[-1].pid if children else started.pid


async def measured(
    clients: Listeners, pid: int, listeners: int, votes: int, say: Callable[[int], Awaitable[Any]]
) -> Delays:
    """Connect all, then cast votes one after another, each received by all before the next."""
    server = psutil.Process(pid)
    before = server.memory_full_info().uss
    took_s = await clients.connect(listeners)
    delays: list[float] = []
    used = used_s(server)
    for number in range(1, votes + 1):
        await asyncio.sleep(random.uniform(0.0, 0.2))
        delays += await clients.receive(number, say(number))
    cost = (used_s(server) - used) / (votes * listeners) * 1e6
    memory = (server.memory_full_info().uss - before) / listeners / 1024
    clients.disconnect()
    quantiles = statistics.quantiles(delays, n=100)
    return Delays(cost, quantiles[49] * 1e3, quantiles[98] * 1e3, listeners / took_s, memory)


def measurements(listeners: int, found: dict[str, Delays], missing: list[Missing]) -> list[Measurement]:
    name = f"{listeners:,} subscribers"

    def measurement(
        figure: str, unit: str, value: Callable[[Delays], Run], goals: tuple[Goal, ...]
    ) -> Measurement:
        parties = {each: Party(each, [value(its)], NOTES.get(each, "")) for each, its in found.items()}
        peers = [parties[SSE]] if SSE in parties else []
        title = f"{name}: {figure}"
        return Measurement(title, unit, "lower", parties[OURS], peers, parties[BARE], goals, missing)

    return [
        measurement("CPU", "µs an event", lambda its: Run(its.cpu_us), CPU_GOALS),
        measurement(
            "p99 from POST to event",
            "ms",
            lambda its: Run(its.p99_ms, also={"p50 ms": its.p50_ms}),
            (Goal(DELAY_GOAL_MS),),
        ),
        measurement("memory of each", "KiB", lambda its: Run(its.kib), (Goal(MEMORY_GOAL_KIB),)),
    ]


if __name__ == "__main__":
    alone("Streams of counts", measure)
