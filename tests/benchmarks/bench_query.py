"""Reads of `vote_updates` against FastAPI with HGETALL and a bare ASGI answer of the same size.

`python -m tests.benchmarks.bench_query [rounds]`: 64 connections read one contest of 20, then one of 200
participants; quiet, and while 10 votes a tenth of a second change its counts.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import orjson
from redis.asyncio import Redis

from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.load import Load, weighed
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import uvicorn, whole_service
from tests.support.clients.voting import Api, Contest, new_id, running

SCRIPT = """
function request()
  return wrk.format("GET", "/contests/{contest}/vote_updates/", {{["authorization"] = "{authorization}"}})
end
"""
CONNECTIONS = 64
VOTES, EVERY_S = 10, 0.1
HASH, BARE = "FastAPI + HGETALL", "bare ASGI, same bytes"
NOTES = {
    HASH: "one figure per participant of each kind: no sources, positions, ETag, access check or hidden results",
    BARE: "no work at all",
}
PARTS = {OURS: ("gateway", "projector", "Valkey", "Kafka"), HASH: ("peer", "Valkey"), BARE: ("peer",)}
FIGURES = ("count", "anonymous_voter_count", "unique_voter_count")
RATE_GOALS = (Goal(8.0, HASH), Goal(0.5, BARE))


async def measure(scale: Scale) -> list[Measurement]:
    found: list[Measurement] = []
    async with whole_service() as (supervisor, api):
        for participants in scale.pick((20,), (20, 200)):
            contest = await api.contest(participants=participants, body=running())
            await vote(contest, range(4 * participants))
            await fill_hash(supervisor.stack["valkey"], contest)
            size = len((await api.client.get(f"{contest.path}/vote_updates/")).content)
            async with servers(supervisor, size) as urls:
                for name, changing in (("quiet", False), ("changing", True)):
                    async with changes(contest, changing):
                        loads = await loaded(urls, api, contest, scale)
                    found += measurements(f"{participants} participants, {name}", loads)
    return found


@asynccontextmanager
async def servers(supervisor: Supervisor, size: int) -> AsyncIterator[dict[str, str]]:
    environment = {"PEER_VALKEY_URL": supervisor.stack["valkey"], "PEER_BYTES": str(size)}
    async with AsyncExitStack() as opened:
        urls = {OURS: supervisor.stack["base_url"]}
        for name, app in {HASH: "hashed", BARE: "bare"}.items():
            server = uvicorn(f"tests.benchmarks.peers.counts_servers:{app}", **environment)
            urls[name] = (await opened.enter_async_context(server))[0]
        yield urls


async def loaded(urls: dict[str, str], api: Api, contest: Contest, scale: Scale) -> dict[str, list[Load]]:
    script = SCRIPT.format(contest=contest.key, authorization=api.client.headers["authorization"])
    loads: dict[str, list[Load]] = {name: [] for name in urls}
    for round_ in range(scale.rounds + 1):
        for name, url in urls.items():
            load = await weighed([url], script, CONNECTIONS, scale.pick(1, 3) if round_ else 1, PARTS[name])
            if round_:  # the first round warms up
                loads[name].append(load)
    return loads


@asynccontextmanager
async def changes(contest: Contest, changing: bool) -> AsyncIterator[None]:
    """Votes that change the counts all the time, if wanted."""

    async def keep_voting() -> None:
        number = 1_000_000
        while True:
            await vote(contest, range(number, number + VOTES))
            number += VOTES
            await asyncio.sleep(EVERY_S)

    task = asyncio.create_task(keep_voting()) if changing else None
    try:
        yield
    finally:
        if task:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


async def vote(contest: Contest, numbers: range) -> None:
    participants, base = contest.participants, new_id()
    votes = [{"participant_key": participants[n % len(participants)], "voter_id": f"{base}{n}"} for n in numbers]
    answer = await contest.client.post(
        f"{contest.path}/votes/batch",
        content=orjson.dumps({"votes": votes}),
        headers={"content-type": "application/json"},
    )
    assert answer.content.count(b'"status":201') == len(votes), answer.text[:300]


async def fill_hash(valkey: str, contest: Contest) -> None:
    fields: dict[Any, Any] = {
        f"{participant}/{figure}": 4 for participant in contest.participants for figure in FIGURES
    }
    async with Redis.from_url(valkey) as redis:
        await redis.hset(f"peer:{contest.key}:counts", mapping=fields)


def measurements(name: str, loads: dict[str, list[Load]]) -> list[Measurement]:
    parties = {each: Party(each, [load.rate for load in its], NOTES.get(each, "")) for each, its in loads.items()}
    rate = Measurement(name, "reads/s", "higher", parties[OURS], [parties[HASH]], parties[BARE], RATE_GOALS)
    spread = Party(OURS, [Run(load.p99 / load.p50, also={"p99 ms": load.p99}) for load in loads[OURS]])
    return [rate, Measurement(f"{name}: p99 over p50", "×", "lower", spread, goals=[Goal(10.0)])]


if __name__ == "__main__":
    alone("Reads of vote_updates", measure)
