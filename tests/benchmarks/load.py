"""Load from wrk, with the CPU time that the servers took for it."""

import asyncio
import re
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.measurement import Run

SETTLE_S = 1.0
"""Time after a load in which its work ends: the fold of its last votes belongs to its CPU time."""


@dataclass(frozen=True)
class Load:
    """Figures of one run of wrk; times in ms, CPU time by process in microseconds per request."""

    per_s: float
    p50: float
    p99: float
    errors: int
    requests: int
    cpu_us: Mapping[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> Run:
        return Run(self.per_s, self.cpu_us, {"p50 ms": self.p50, "errors": self.errors})

    @property
    def tail(self) -> Run:
        return Run(self.p99)


async def wrk(url: str, script: str, connections: int, seconds: int) -> Load:
    """One thread of wrk with a Lua script. Exits with an explanation where wrk is missing."""
    if shutil.which("wrk") is None:
        sys.exit("This benchmark loads with wrk: install the package wrk.")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as file:
        file.write(script)
        file.flush()
        command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", file.name, url]
        process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
        text = (await process.communicate())[0].decode()
    return parse(text)


def parse(text: str) -> Load:
    """Return the figures of wrk's report. Raises `ValueError` if there are none."""
    rate, requests = re.search(r"Requests/sec:\s+([\d.]+)", text), re.search(r"(\d+) requests in", text)
    if rate is None or requests is None:
        raise ValueError(f"not a report of wrk: {text[:300]}")
    errors = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    return Load(
        per_s=float(rate[1]),
        p50=_quantile_ms(text, 50),
        p99=_quantile_ms(text, 99),
        errors=int(errors[1]) if errors else 0,
        requests=int(requests[1]),
    )


async def weighed(
    urls: Sequence[str], script: str, connections: int, seconds: int, parts: Collection[str]
) -> Load:
    """Load all servers at once, the connections divided among them, and weigh this process's servers.

    Only the processes named in `parts` have a part in the work.
    """
    meter = CpuMeter()
    loads = await asyncio.gather(*(wrk(url, script, connections // len(urls), seconds) for url in urls))
    await asyncio.sleep(SETTLE_S)
    load = together(loads)
    return replace(load, cpu_us=meter.each_us(max(1, load.requests), parts))


def together(loads: Sequence[Load]) -> Load:
    """Return the figures of simultaneous loads as of one: rates add up, the worst quantiles count."""
    return Load(
        per_s=sum(load.per_s for load in loads),
        p50=max(load.p50 for load in loads),
        p99=max(load.p99 for load in loads),
        errors=sum(load.errors for load in loads),
        requests=sum(load.requests for load in loads),
    )


def _quantile_ms(text: str, percent: int) -> float:
    found = re.search(rf"^ +{percent}% +([\d.]+)(us|ms|s|m) *$", text, flags=re.MULTILINE)
    if found is None:
        raise ValueError(f"no quantile of {percent} % in a report of wrk: {text[:1000]}")
    return float(found[1]) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60_000}[found[2]]
