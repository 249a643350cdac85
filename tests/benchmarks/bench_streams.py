"""Cost and latency of streams with thousands of subscribers to one contest.

`python -m tests.benchmarks.bench_streams [listeners] [votes]`

Three servers, one after the other, say the same to the same clients: `streams`, the service as `tally up` runs it;
`bare`, sockets that are written to and nothing else; and `yields`, an `EventSourceResponse` whose every listener
yields its events. Delays are from a POST to its event, which for the service alone is a vote; CPU is that of the
serving process, a listener and event.
"""

from __future__ import annotations

import asyncio
import random
import resource
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx
import psutil
import uvloop

from libs.local_stack.ports import free_ports
from tests.benchmarks.measurement import median
from tests.benchmarks.stack import whole_service
from tests.support.voting import Contest, running

PARTICIPANTS = 20
CONNECTING = 200
STEADY_S = 5.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


class Crowd:
    """Clients that note when they hear what is `wanted`; `events` counts all that they hear."""

    def __init__(self, port: int, path: str, key: str = "") -> None:
        self.request = f"GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
        self.wanted, self.round, self.events = b"", 0, 0
        self.times: list[float] = []
        self._port = port
        self._ears: list[Ear] = []
        self._all = asyncio.Event()

    async def come(self, count: int) -> float:
        """Seconds until all have heard their first counts."""
        began = time.perf_counter()
        waiting = asyncio.Semaphore(CONNECTING)

        async def one() -> None:
            async with waiting:
                loop = asyncio.get_running_loop()
                _, ear = await loop.create_connection(lambda: Ear(self), "127.0.0.1", self._port)
                self._ears.append(ear)
                await ear.first

        await asyncio.gather(*(one() for _ in range(count)))
        return time.perf_counter() - began

    async def hear(self, number: int, saying: Awaitable[Any]) -> list[float]:
        """Seconds until each has heard of so many votes, `saying` being what brings that about."""
        self.wanted, self.round, self.times = b'"count":%d,' % number, number, []
        self._all.clear()
        began = time.perf_counter()
        await saying
        async with asyncio.timeout(60):
            await self._all.wait()
        return [at - began for at in self.times]

    def heard(self) -> None:
        self.times.append(time.perf_counter())
        if len(self.times) == len(self._ears):
            self._all.set()

    def leave(self) -> None:
        for ear in self._ears:
            ear.transport.abort()


class Ear(asyncio.Protocol):
    """One client."""

    __slots__ = ("_crowd", "_round", "first", "transport")

    def __init__(self, crowd: Crowd) -> None:
        self._crowd = crowd
        self._round = 0
        self.first: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.write(self._crowd.request)

    def data_received(self, data: bytes) -> None:
        self._crowd.events += data.count(b"event: counts")
        if not self.first.done():
            if b"event: counts" in data:
                self.first.set_result(None)
        elif self._round < self._crowd.round and self._crowd.wanted in data:
            self._round = self._crowd.round
            self._crowd.heard()


async def measure(
    name: str, crowd: Crowd, pid: int, listeners: int, votes: int, say: Callable[[int], Awaitable[Any]]
) -> None:
    process = psutil.Process(pid)
    before = process.memory_full_info()
    took = await crowd.come(listeners)
    delays: list[float] = []
    spreads: list[float] = []
    used = _cpu(process)
    for number in range(1, votes + 1):
        await asyncio.sleep(random.uniform(0.0, 0.2))
        heard = await crowd.hear(number, say(number))
        delays += heard
        spreads.append(max(heard) - min(heard))
    cost = (_cpu(process) - used) / (votes * listeners) * 1e6
    after = process.memory_full_info()
    rss, uss = ((a - b) / listeners / 1024 for a, b in ((after.rss, before.rss), (after.uss, before.uss)))
    quantiles = statistics.quantiles(delays, n=100)
    print(
        f"  {name:8} {listeners / took:5.0f} come a second   {rss:4.1f} KiB RSS, {uss:4.1f} KiB USS each   "
        f"delay p50 {quantiles[49] * 1e3:6.1f} ms, p99 {quantiles[98] * 1e3:6.1f} ms   "
        f"first to last {median(spreads) * 1e3:6.1f} ms   {cost:5.1f} us CPU each"
    )


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def steady(crowd: Crowd, contest: Contest, pid: int, listeners: int) -> None:
    """Votes without a pause, from a few voters at once."""
    process = psutil.Process(pid)
    stop = time.perf_counter() + STEADY_S
    votes = 0

    async def vote(seat: int) -> None:
        nonlocal votes
        while time.perf_counter() < stop:
            votes += 1
            await contest.vote(0, f"steady {seat} {votes}")

    used, events = _cpu(process), crowd.events
    await asyncio.gather(*(vote(seat) for seat in range(4)))
    share = (_cpu(process) - used) / STEADY_S
    each = (crowd.events - events) / listeners / STEADY_S
    print(f"  {votes / STEADY_S:.0f} votes a second: {each:.1f} events a second to each, {share:.0%} of a core")


async def main(listeners: int, votes: int) -> None:
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=PARTICIPANTS, body=running())
        template = (await api.client.get(f"{contest.path}/vote_updates")).text
        print(f"{listeners} listeners, {votes} votes, {len(template)} bytes")
        port = int(supervisor.stack["base_url"].rsplit(":", 1)[1])
        crowd = Crowd(port, f"{contest.path}/vote_updates/stream", supervisor.stack["api_key"])
        pid = supervisor.stack["pids"]["gateway"]
        await measure("streams", crowd, pid, listeners, votes, lambda number: contest.vote(0, f"v{number}"))
        await steady(crowd, contest, pid, listeners)
        crowd.leave()
    for name in ("bare", "yields"):
        async with own_process(name, template) as (port, pid), httpx.AsyncClient() as client:
            crowd = Crowd(port, "/stream")
            url = f"http://127.0.0.1:{port}/say"
            await measure(name, crowd, pid, listeners, votes, partial(_say, client, url))
            crowd.leave()


async def _say(client: httpx.AsyncClient, url: str, count: int) -> None:
    await client.post(url, params={"count": count})


@asynccontextmanager
async def own_process(name: str, template: str) -> AsyncIterator[tuple[int, int]]:
    [port] = free_ports(1)
    command = sys.executable, "-m", "tests.benchmarks.bench_streams", name, str(port), template
    process = await asyncio.create_subprocess_exec(*command)
    try:
        while True:
            try:
                (await asyncio.open_connection("127.0.0.1", port))[1].close()
                break
            except OSError:
                await asyncio.sleep(0.05)
        yield port, process.pid
    finally:
        process.kill()
        await process.wait()


def event(template: str, count: int) -> bytes:
    """With the count that the clients look for."""
    return f"event: counts\ndata: {_record(template, count)}\nid: {count}\n\n".encode()


def _record(template: str, count: int) -> str:
    return template.replace('"count":0,', f'"count":{count},', 1)


async def bare(port: int, template: str) -> None:
    """The least that writes the same to all."""
    listening: set[asyncio.WriteTransport] = set()

    class Connection(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            if data.startswith(b"GET"):
                first = event(template, 0)
                self.transport.write(HEAD + b"%x\r\n%b\r\n" % (len(first), first))
                listening.add(self.transport)
            elif data.startswith(b"POST"):
                said = event(template, int(data.split(b"count=")[1].split()[0]))
                chunk = b"%x\r\n%b\r\n" % (len(said), said)
                self.transport.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                for transport in listening:
                    transport.write(chunk)

        def connection_lost(self, error: Exception | None) -> None:
            listening.discard(self.transport)

    server = await asyncio.get_running_loop().create_server(Connection, "127.0.0.1", port, backlog=2048)
    await server.serve_forever()


async def yields(port: int, template: str) -> None:
    """As one writes it with the framework alone."""
    import uvicorn  # noqa: PLC0415
    from fastapi import FastAPI  # noqa: PLC0415
    from fastapi.sse import EventSourceResponse, ServerSentEvent  # noqa: PLC0415

    app, said, changed = FastAPI(), 0, asyncio.Condition()

    @app.get("/stream", response_class=EventSourceResponse)
    async def stream() -> AsyncIterator[ServerSentEvent]:
        seen = -1
        while True:
            async with changed:
                while said == seen:
                    await changed.wait()
            seen = said
            yield ServerSentEvent(event="counts", raw_data=_record(template, seen), id=str(seen))

    @app.post("/say")
    async def say(count: int) -> None:
        nonlocal said
        said = count
        async with changed:
            changed.notify_all()

    config = uvicorn.Config(app, port=port, loop="none", http="httptools", lifespan="off", log_config=None)
    await uvicorn.Server(config).serve()


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    match sys.argv[1:]:
        case ["bare", port, template]:
            uvloop.run(bare(int(port), template))
        case ["yields", port, template]:
            uvloop.run(yields(int(port), template))
        case [*numbers]:
            given = [int(number) for number in numbers]
            uvloop.run(main(given[0] if given else 5_000, given[1] if len(given) > 1 else 50))
