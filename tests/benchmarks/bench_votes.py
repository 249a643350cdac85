"""Single-vote POST against a plain FastAPI handler with HINCRBY + SADD, and against a bare ASGI answer.

`python -m tests.benchmarks.bench_votes [rounds]`: everything on this machine, one worker each, loaded in turn.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.benchmarks.stack import Load, median, weighed, whole_service, wrk
from tests.support.eventually import eventually
from tests.support.voting import running

SCRIPT = """
local n, base, participants = 0, 0, {{{participants}}}
function init() math.randomseed(os.time()); base = math.random(1, 1e9) end
function request()
  n = n + 1
  local body = string.format('{{"participant_key":"%s","voter_id":"u%d-%d"}}',
    participants[n % #participants + 1], base, math.floor(n / 3))
  return wrk.format("POST", "/contests/{contest}/votes",
    {{["authorization"] = "{authorization}", ["content-type"] = "application/json"}}, body)
end
"""
CONNECTIONS = (64, 128, 256)
SECONDS = 5
GOALS = {64: 2.0, 256: 3.0}
"""Goals of the rate in multiples of the plain handler's, by connections."""


@asynccontextmanager
async def serve_peer(app: str, valkey: str, port: int) -> AsyncIterator[str]:
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        app,
        "--port",
        str(port),
        "--log-level",
        "warning",
        "--no-access-log",
    ]
    environment = os.environ | {"PEER_VALKEY_URL": valkey}
    process = await asyncio.create_subprocess_exec(*command, env=environment)

    async def listens() -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await eventually(listens)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        await process.wait()


async def main(rounds: int) -> None:
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=100, body=running(free={"max_participant": 3}))
        script = SCRIPT.format(
            participants=", ".join(f'"{key}"' for key in contest.participants),
            contest=contest.key,
            authorization=api.client.headers["authorization"],
        )
        valkey = supervisor.stack["valkey"]
        async with (
            serve_peer("tests.benchmarks.peer_servers:app", valkey, 18231) as plain,
            serve_peer("tests.benchmarks.peer_servers:bare", valkey, 18232) as bare,
        ):
            servers = {"tallykeeper": supervisor.stack["base_url"], "HINCRBY+SADD": plain, "bare ASGI": bare}
            for url in servers.values():
                await wrk(url, script, 64, 2)
            for connections in CONNECTIONS:
                loads: dict[str, list[Load]] = {name: [] for name in servers}
                for _ in range(rounds):
                    for name, url in servers.items():
                        loads[name].append(await weighed(url, script, connections, SECONDS))
                show(connections, loads)
        await api.client.get(f"{contest.path}/vote_updates/")


def show(connections: int, loads: dict[str, list[Load]]) -> None:
    print(f"\n{connections} clients, medians of {len(loads['tallykeeper'])} rounds of {SECONDS} s")
    for name, runs in loads.items():
        rate, p50, p99 = (median([getattr(run, figure) for run in runs]) for figure in ("per_s", "p50", "p99"))
        errors = sum(run.errors for run in runs)
        print(f"  {name:13} {rate:8.0f}/s   p50 {p50:6.1f} ms   p99 {p99:6.1f} ms   errors {errors}")
        used = {part: median([run.cpu_us.get(part, 0.0) for run in runs]) for part in runs[0].cpu_us}
        parts = ", ".join(f"{part} {taken:.0f}" for part, taken in used.items() if taken >= 0.5)
        print(f"  {'':13} {sum(used.values()):8.0f} µs of CPU each: {parts}")
    for name in ("HINCRBY+SADD", "bare ASGI"):
        pairs = list(zip(loads["tallykeeper"], loads[name], strict=True))
        rate = median([a.per_s / b.per_s for a, b in pairs])
        cpu = median([sum(a.cpu_us.values()) / sum(b.cpu_us.values()) for a, b in pairs])
        goal = f", goal {GOALS[connections]:g}" if name == "HINCRBY+SADD" and connections in GOALS else ""
        print(f"  tallykeeper / {name}: {rate:.2f} by rate{goal}; {cpu:.2f} by CPU")


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3))
