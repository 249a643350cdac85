"""`vote_updates` of an unchanged contest with 100 participants, against a bare ASGI response of the same size.

`python -m tests.benchmarks.bench_query [seconds] [connections]`

Both are served by uvicorn with one worker and loaded by the same client (wrk where it is on the PATH), by turns.
"""

import asyncio
import re
import secrets
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import psutil
import uvicorn
import uvloop

from libs.telemetry.redaction import revealed
from tests.benchmarks.stack import own_servers
from tests.services.query.query_environment import QueryEnvironment, contest, open_environment

PARTICIPANTS = 100
ROUNDS = 8
PATH = "/contests/song/vote_updates/?sources=true"
SERVERS = {"bare": 7811, "counts": 7812}


def bare_app(size: int) -> Any:
    """The least that an ASGI application can do with so many bytes."""
    body = b"x" * size
    headers = [(b"content-type", b"application/json"), (b"content-length", str(size).encode())]

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


async def serve(name: str, app: Any) -> None:
    config = uvicorn.Config(
        app, port=SERVERS[name], loop="none", http="httptools", lifespan="off", access_log=False, log_config=None
    )
    await uvicorn.Server(config).serve()


async def serve_counts(valkey: str, namespace: str, storage: str) -> None:
    from libs.web.asgi import Front  # noqa: PLC0415
    from libs.web.http_service import build_app  # noqa: PLC0415
    from services.query.app import open_surface  # noqa: PLC0415
    from services.query.settings import Settings  # noqa: PLC0415
    from tests.support.permissive_guard import Unguarded  # noqa: PLC0415

    settings = Settings(valkey_url=valkey, namespace=namespace, partitions=16, storage_url=storage)
    async with open_surface(settings, guard=Unguarded()) as http_module:
        await serve("counts", Front(build_app("query", [http_module]), http_module.hot))


@asynccontextmanager
async def server(*arguments: str) -> AsyncIterator[psutil.Process]:
    """A process of its own for one server, ready."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.benchmarks.bench_query", *arguments
    )
    try:
        async with httpx.AsyncClient() as client:
            for _ in range(1_200):
                try:
                    await client.get(f"http://127.0.0.1:{SERVERS[arguments[0]]}/livez")
                    break
                except httpx.TransportError:
                    await asyncio.sleep(0.05)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        await process.wait()


async def load(name: str, key: str, connections: int, seconds: float) -> tuple[float, float, float]:
    """Requests a second, and p50 and p99 in milliseconds."""
    if shutil.which("wrk"):
        return await asyncio.to_thread(_wrk, name, key, connections, seconds)
    request = f"GET {PATH} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n\r\n".encode()
    times: list[float] = []
    stop = time.perf_counter() + seconds
    await asyncio.gather(*(_client(SERVERS[name], request, stop, times) for _ in range(connections)))
    quantiles = statistics.quantiles(times, n=100)
    return len(times) / seconds, quantiles[49] * 1e3, quantiles[98] * 1e3


async def _client(port: int, request: bytes, stop: float, times: list[float]) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    while (began := time.perf_counter()) < stop:
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert b" 200 " in head[:20], head
        await reader.readexactly(int(head.split(b"content-length: ")[1].split(b"\r")[0]))
        times.append(time.perf_counter() - began)
    writer.close()


def _wrk(name: str, key: str, connections: int, seconds: float) -> tuple[float, float, float]:
    url = f"http://127.0.0.1:{SERVERS[name]}{PATH}"
    command = [
        "wrk",
        "-t1",
        f"-c{connections}",
        f"-d{seconds:.0f}s",
        "--latency",
        "-H",
        f"Authorization: Bearer {key}",
    ]
    said = subprocess.run([*command, url], capture_output=True, text=True, check=True).stdout
    assert "Non-2xx" not in said, said

    def milliseconds(share: str) -> float:
        number, unit = re.findall(rf"{share}%\s+([\d.]+)(us|ms|s)", said)[0]
        return float(number) * {"us": 0.001, "ms": 1, "s": 1000}[unit]

    return float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0]), milliseconds("50"), milliseconds("99")


def _cpu(process: psutil.Process) -> float:
    used = process.cpu_times()
    return float(used.user + used.system)


async def prepare(env: QueryEnvironment) -> str:
    """100 participants with free and paid votes in all partitions."""
    await env.production.create("contests", "song", contest())
    for number in range(PARTICIPANTS):
        await env.production.enter("song", secrets.token_hex(12), title=f"Participant {number}")
    key = await env.production.key()
    for participant in (await env.counts(key))["participants"]:
        for voter in range(4):
            source = "c-paid" if voter % 2 else "c-free"
            await env.vote(participant, 3, voter=f"{participant}{voter}", source=source, anonymous=voter > 2)
    return key


async def visible(env: QueryEnvironment, key: str, port: int) -> list[float]:
    """Milliseconds from a folded vote to its count in a plain read, one vote after the other."""
    times = []
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {key}"}) as client:
        url = f"http://127.0.0.1:{port}/contests/song/vote_updates"
        before = (await client.get(url)).json()
        participant = next(iter(before["participants"]))
        expected = before["count"]
        for number in range(100):
            await asyncio.sleep(0.003 * (number % 7))
            began = time.perf_counter()
            await env.vote(participant, voter=f"late {number}")
            expected += 1
            while (await client.get(url)).json()["count"] < expected:
                pass
            times.append((time.perf_counter() - began) * 1e3)
    return times


async def main(seconds: float, connections: int) -> None:
    async with own_servers() as servers:
        await measure(servers.valkey, seconds, connections)


async def measure(valkey: str, seconds: float, connections: int) -> None:
    namespace = f"bench{secrets.token_hex(4)}"
    async with open_environment(valkey, namespace, partitions=16) as env:
        key = await prepare(env)
        size = len((await env.get(PATH, key)).content)
        print(f"{size} bytes, {connections} connections, {seconds:g} s a turn")
        given = valkey, namespace, revealed(env.settings.storage_url)
        async with server("bare", str(size)) as bare, server("counts", *given) as counts:
            processes = {"bare": bare, "counts": counts}
            rates: dict[str, list[float]] = {name: [] for name in SERVERS}
            costs: dict[str, list[float]] = {name: [] for name in SERVERS}
            for _ in range(ROUNDS):
                for name in SERVERS:
                    before = _cpu(processes[name])
                    rate, p50, p99 = await load(name, key, connections, seconds)
                    cost = (_cpu(processes[name]) - before) / (rate * seconds) * 1e6
                    rates[name].append(rate)
                    costs[name].append(cost)
                    times = f"p50 {p50:6.2f} ms   p99 {p99:6.2f} ms   {cost:4.0f} us CPU a request"
                    print(f"  {name:6} {rate:8.0f}/s   {times}")
            best = {name: max(found) for name, found in rates.items()}
            least = {name: min(found) for name, found in costs.items()}
            print(f"ratio {best['counts'] / best['bare']:.2f} of bare ASGI (wanted: at least 0.40)")
            print(f"ratio {least['bare'] / least['counts']:.2f} by the servers' CPU time, whatever else runs here")
            shown = statistics.quantiles(await visible(env, key, SERVERS["counts"]), n=100)
            print(f"folded to visible in a plain read: p50 {shown[49]:.1f} ms, p99 {shown[98]:.1f} ms")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["bare", size]:
            uvloop.run(serve("bare", bare_app(int(size))))
        case ["counts", valkey, namespace, storage]:
            uvloop.run(serve_counts(valkey, namespace, storage))
        case [*numbers]:
            given = [float(number) for number in numbers]
            uvloop.run(main(given[0] if given else 1.0, int(given[1]) if len(given) > 1 else 64))
