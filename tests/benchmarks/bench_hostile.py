"""Latency of votes beside 10,000 connections of each hostile kind, against the same votes without them.

`python -m tests.benchmarks.bench_hostile [rounds]`: eight clients cast votes at a steady pace, below saturation.
The hostile clients take CPU time of the same machine, so run it where that is free.
"""

import asyncio
import statistics
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import httpx

from tests.benchmarks.alone import alone
from tests.benchmarks.hostile_clients import KINDS
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.voting import Contest

QUIET: Final = "no hostile connections"
CLIENTS: Final = 8
PACE_S: Final = 0.05
"""Time between two votes of a client."""
CONNECT_S: Final = 30.0
"""Time after which votes are cast also if not all clients have connected."""
GOAL: Final = 0.5
"""The quiet p99 over the attacked one, at least: at most twice as long."""


async def measure(scale: Scale) -> list[Measurement]:
    seconds = scale.pick(3, 10)
    async with whole_service() as (supervisor, api):
        contest = await api.contest()
        port = httpx.URL(supervisor.base_url).port or 80
        await cast(contest, seconds)
        attacked: dict[str, list[Run]] = {kind: [] for kind in KINDS}
        quiet: dict[str, list[Run]] = {kind: [] for kind in KINDS}
        for _ in range(scale.rounds):
            for kind, runs in attacked.items():
                quiet[kind].append(await cast(contest, seconds))
                async with hostile_clients(port, kind):
                    runs.append(await cast(contest, seconds))
                print(kind, quiet[kind][-1], runs[-1], file=sys.stderr, flush=True)
    return [
        Measurement(
            f"{kind}: p99",
            "ms",
            "lower",
            Party(OURS, runs),
            [Party(QUIET, quiet[kind])],
            goals=[Goal(GOAL, QUIET)],
        )
        for kind, runs in attacked.items()
    ]


@asynccontextmanager
async def hostile_clients(port: int, kind: str) -> AsyncIterator[None]:
    command = [sys.executable, "-m", "tests.benchmarks.hostile_clients", str(port), kind]
    clients = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
    )
    assert clients.stdin is not None
    assert clients.stdout is not None
    try:
        with suppress(TimeoutError):  # some are always away: they were refused, and connect again
            await asyncio.wait_for(clients.stdout.readline(), CONNECT_S)
        yield
    finally:
        clients.kill()
        await clients.wait()


async def cast(contest: Contest, seconds: float) -> Run:
    """Cast votes for some seconds; the p99 of their latencies in ms, and failed votes."""
    taken: list[float] = []
    errors = 0
    until = time.perf_counter() + seconds

    async def client(number: int) -> None:
        nonlocal errors
        vote = 0
        while time.perf_counter() < until:
            vote += 1
            began = time.perf_counter()
            answer = await contest.vote(voter=f"u{began}-{number}-{vote}")
            taken.append((time.perf_counter() - began) * 1000)
            errors += answer.status_code != httpx.codes.CREATED
            await asyncio.sleep(PACE_S)

    await asyncio.gather(*map(client, range(CLIENTS)))
    p99 = statistics.quantiles(taken, n=100)[98]
    return Run(p99, also={"p50 ms": statistics.median(taken), "votes": len(taken), "errors": errors})


if __name__ == "__main__":
    alone("Votes beside hostile connections", measure)
