"""Measures the cost of traces for a POST of one vote: off, at the default ratio, and of every request.

`python -m tests.benchmarks.bench_traces [rounds]`: three gateways over the same servers, loaded in turn. The
processor's time that a gateway takes for a request says more than its rate, which others on the machine disturb.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import psutil

from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_votes import vote_script
from tests.benchmarks.cpu import used_s
from tests.benchmarks.load import wrk
from tests.benchmarks.measurement import OURS, Measurement, Party, Run, Scale
from tests.benchmarks.stack import further_gateway, whole_service
from tests.support.trace_collector import open_collector

RATIOS = {"off": None, "1 in 100": 0.01, "all": 1.0}
CONNECTIONS = 64
SECONDS = 5


@dataclass(frozen=True)
class Gateway:
    url: str
    process: psutil.Process

    async def load(self, script: str, seconds: int) -> Run:
        """Return the rate, and the gateway's CPU time per request."""
        before = used_s(self.process)
        load = await wrk(self.url, script, CONNECTIONS, seconds)
        return Run(load.per_s, {"gateway": (used_s(self.process) - before) / load.requests * 1_000_000})


@asynccontextmanager
async def gateway(stack: Supervisor, collector: str, ratio: float | None) -> AsyncIterator[Gateway]:
    environment = {"TALLY_LOG_LEVEL": "error"}  # with every request traced, spans are dropped
    if ratio is not None:
        environment |= {"TALLY_TRACES_URL": collector, "TALLY_TRACES_RATIO": str(ratio)}
    async with further_gateway(stack, environment) as (url, pid):
        yield Gateway(url, psutil.Process(pid))


async def measure(scale: Scale) -> list[Measurement]:
    with open_collector() as collector:
        async with whole_service() as (stack, api), AsyncExitStack() as gateways:
            script = await vote_script(api)
            served = {
                name: await gateways.enter_async_context(gateway(stack, collector.url, ratio))
                for name, ratio in RATIOS.items()
            }
            for each in served.values():
                await wrk(each.url, script, CONNECTIONS, 2)
            runs: dict[str, list[Run]] = {name: [] for name in served}
            for _ in range(scale.rounds):
                for name, each in served.items():
                    runs[name].append(await each.load(script, scale.pick(2, SECONDS)))
    off = Party("not traced", runs["off"])
    return [
        Measurement(f"{CONNECTIONS} clients, traced: {name}", "votes/s", "higher", Party(OURS, its), [off])
        for name, its in runs.items()
        if name != "off"
    ]


if __name__ == "__main__":
    alone("Traces of votes", measure)
