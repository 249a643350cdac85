"""Measures the cost of traces for a POST of one vote: off, at the default ratio, and of every request.

`python -m tests.benchmarks.bench_traces [rounds]`: three gateways over the same servers, loaded in turn. The
processor's time that a gateway takes for a request says more than its rate, which others on the machine disturb.
"""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import psutil

from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.bench_votes import vote_script
from tests.benchmarks.load import wrk
from tests.benchmarks.measurement import median
from tests.benchmarks.stack import further_gateway, whole_service
from tests.support.trace_collector import open_collector

RATIOS = {"off": None, "1 in 100": 0.01, "all": 1.0}
CONNECTIONS = 64
SECONDS = 5


@dataclass(frozen=True)
class Gateway:
    url: str
    process: psutil.Process

    async def load(self, script: str) -> tuple[float, float]:
        """Requests a second, and the processor's microseconds for each."""
        before = self.process.cpu_times()
        per_s = (await wrk(self.url, script, CONNECTIONS, SECONDS)).per_s
        after = self.process.cpu_times()
        busy_s = after.user + after.system - before.user - before.system
        return per_s, busy_s * 1_000_000 / (per_s * SECONDS)


@asynccontextmanager
async def gateway(stack: Supervisor, collector: str, ratio: float | None) -> AsyncIterator[Gateway]:
    environment = {"TALLY_LOG_LEVEL": "error"}  # with every request traced, spans are dropped
    if ratio is not None:
        environment |= {"TALLY_TRACES_URL": collector, "TALLY_TRACES_RATIO": str(ratio)}
    async with further_gateway(stack, environment) as (url, pid):
        yield Gateway(url, psutil.Process(pid))


async def main(rounds: int) -> None:
    with open_collector() as collector:
        async with whole_service() as (stack, api), AsyncExitStack() as gateways:
            script = await vote_script(api)
            served = {
                name: await gateways.enter_async_context(gateway(stack, collector.url, ratio))
                for name, ratio in RATIOS.items()
            }
            for each in served.values():
                await wrk(each.url, script, CONNECTIONS, 2)
            runs: dict[str, list[tuple[float, float]]] = {name: [] for name in served}
            for _ in range(rounds):
                for name, each in served.items():
                    runs[name].append(await each.load(script))
            print(f"{CONNECTIONS} clients, medians of {rounds} rounds of {SECONDS} s")
            for name, loads in runs.items():
                per_s, cpu_us = (median(list(figures)) for figures in zip(*loads, strict=True))
                ratio = median([its[1] / off[1] for its, off in zip(loads, runs["off"], strict=True)])
                print(f"  traced: {name:9} {per_s:8.0f}/s   {cpu_us:6.0f} us a request, {ratio:.2f} of off")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
