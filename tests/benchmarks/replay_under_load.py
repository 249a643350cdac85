"""A replay of many votes under load: killed half-way with -9, resumed, verified and swapped.

`python -m tests.benchmarks.replay_under_load [--votes 1000000]`: voters vote at 2,000/s (wrk) and a reader polls
the count all the time. Compared with the live projector's own loop over the same log, into views of its own, under
the same load. Ends with 1 where a vote was refused, a read failed or went backwards, or `verify` found a
difference.
"""

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson
import typer

from libs.contracts.topics import votes_topic
from libs.deployment.deployment import Deployment
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.local_stack.supervisor import Supervisor
from libs.projection.votes_projection import VotesProjection
from libs.replay.targets import PROJECTIONS, Rebuildable
from libs.views.valkey.client import read_info
from libs.views.votes.address_counters import AddressCounters
from libs.views.votes.vote_views import VoteViews
from services.cli.deployment_discovery import find_addresses
from tests.benchmarks.bench_projector import fold
from tests.benchmarks.load import Load, wrk
from tests.benchmarks.measurement import median
from tests.benchmarks.stack import whole_service
from tests.support.voting import Contest, new_id, running

BATCH = 1_000
CLIENTS = 4
RATE = 2_000
CONNECTIONS = 1_000
ROUND_S = 5
BEFORE_S = 10
POLL_S = 0.05
SCRIPT = """
local ffi = require("ffi")
ffi.cdef[[typedef struct {{ long s; long us; }} now_t; int gettimeofday(now_t *, void *);]]
local n, base, slot, clock, participants = 0, 0, 0, ffi.new("now_t"), {{{participants}}}
local function now() ffi.C.gettimeofday(clock, nil); return tonumber(clock.s) * 1e3 + tonumber(clock.us) / 1e3 end
function init() base = math.random(1, 1e9) + os.time() % 1e6 * 1e9 end
-- a place every 1/rate s for the next free client, so the pace does not fall with the answers' latency
function delay() slot = math.max(slot + {every_ms}, now()); return math.floor(slot - now() + 0.5) end
function request()
  n = n + 1
  local body = string.format('{{"participant_key":"%s","voter_id":"u%.0f-%d"}}',
    participants[n % #participants + 1], base, n)
  return wrk.format("POST", "/contests/{contest}/votes",
    {{["authorization"] = "{authorization}", ["content-type"] = "application/json"}}, body)
end
"""


@dataclass
class Public:
    """Voters at a steady pace, and a reader; what they met with, in rounds."""

    contest: Contest
    loads: list[Load] = field(default_factory=list)
    reads_ms: list[float] = field(default_factory=list)
    failed: int = 0
    backwards: int = 0
    _stop: asyncio.Event = field(default_factory=asyncio.Event)

    @asynccontextmanager
    async def busy(self) -> AsyncIterator["Public"]:
        self._stop.clear()
        self.loads.clear()
        self.reads_ms.clear()
        tasks = asyncio.gather(self._vote(), self._read())
        try:
            yield self
        finally:
            self._stop.set()
            await tasks

    def summary(self, when: str) -> str:
        rate, p50, p99 = (median([getattr(load, name) for load in self.loads]) for name in ("per_s", "p50", "p99"))
        reads = sorted(self.reads_ms)
        return (
            f"{when:24} {rate:7.0f} votes/s, p50 {p50:6.1f} ms, p99 {p99:6.1f} ms; reads p50 "
            f"{reads[len(reads) // 2]:6.1f} ms, p99 {reads[len(reads) * 99 // 100]:6.1f} ms; "
            f"{sum(load.errors for load in self.loads)} refused or failed"
        )

    async def _vote(self) -> None:
        client = self.contest.client
        script = SCRIPT.format(
            participants=",".join(f'"{key}"' for key in self.contest.participants),
            contest=self.contest.key,
            authorization=client.headers["authorization"],
            every_ms=1000 / RATE,
        )
        while not self._stop.is_set():
            self.loads.append(await wrk(str(client.base_url), script, CONNECTIONS, ROUND_S))
            self.failed += self.loads[-1].errors

    async def _read(self) -> None:
        last = 0
        while not self._stop.is_set():
            begun = time.perf_counter()
            answer = await self.contest.client.get(f"{self.contest.path}/vote_updates/")
            self.reads_ms.append((time.perf_counter() - begun) * 1000)
            self.failed += answer.status_code != 200
            count = answer.json().get("count", last)
            self.backwards += count < last
            last = count
            await asyncio.sleep(POLL_S)


async def fill(contest: Contest, votes: int) -> float:
    """Votes accepted a second, by batches of new voters."""
    base = new_id()

    async def post(firsts: range) -> None:
        for first in firsts:
            body = [
                {"participant_key": contest.participants[n % 10], "voter_id": f"{base}-{n}"}
                for n in range(first, first + BATCH)
            ]
            content, headers = orjson.dumps({"votes": body}), {"content-type": "application/json"}
            answer = await contest.client.post(f"{contest.path}/votes/batch", content=content, headers=headers)
            assert answer.content.count(b'"status":201') == BATCH, answer.text[:300]

    begun = time.perf_counter()
    firsts = range(0, votes, BATCH)
    await asyncio.gather(*(post(firsts[client::CLIENTS]) for client in range(CLIENTS)))
    return votes / (time.perf_counter() - begun)


async def tally(supervisor: Supervisor, *arguments: str) -> asyncio.subprocess.Process:
    command = [sys.executable, "-m", "services.cli", *arguments, "--json"]
    where = ["--data-dir", str(supervisor.data_dir)]
    return await asyncio.create_subprocess_exec(*command, *where, stdout=asyncio.subprocess.PIPE)


async def printed(process: asyncio.subprocess.Process) -> dict[str, Any]:
    out, _ = await process.communicate()
    found: dict[str, Any] = json.loads(out)
    return found


async def verified(supervisor: Supervisor, when: str) -> bool:
    begun = time.perf_counter()
    report = await printed(await tally(supervisor, "verify"))
    took = time.perf_counter() - begun
    found = "clean" if report["equal"] else "DIFFERS"
    print(f"verify {when:17} {found}, {report['events']:,} events in {took:.1f} s")
    return bool(report["equal"])


class Bench:
    def __init__(self, supervisor: Supervisor, contest: Contest) -> None:
        self._supervisor = supervisor
        self._deployment = Deployment(find_addresses(supervisor.data_dir))
        self._contest = contest
        self._valkey = self._deployment.valkey

    async def run(self, votes: int) -> bool:
        """Return whether all went well."""
        print(f"filled with {votes:,} votes, {await fill(self._contest, votes):,.0f} a second")
        public = Public(self._contest)
        clean = [await verified(self._supervisor, "before")]
        async with public.busy():
            await asyncio.sleep(BEFORE_S)
        print(public.summary("before the replay"))
        memory = await self._memory()
        async with public.busy():
            await self._kill_half_way()
        print(public.summary("during its first half"))
        clean.append(await verified(self._supervisor, "half-way"))
        async with public.busy():
            process = await tally(self._supervisor, "replay", "run", "--projection", "votes", "--execute")
            [rebuilt] = (await printed(process))["rebuilt"]
        print(public.summary("during its second half"))
        print(f"memory {memory / 1e6:,.0f} MB before, {await self._memory() / 1e6:,.0f} MB with both generations")
        clean.append(await verified(self._supervisor, "after"))
        async with public.busy():
            live = await self._live_loop()
        print(public.summary("during the live loop"))
        rate = rebuilt["events_per_s"]
        print(f"the replay folds     {rate:8,.0f} events/s ({rebuilt['events']:,} of them)")
        print(f"the live loop folds  {live:8,.0f} events/s   ratio {rate / live:.2f}")
        print(
            f"swapped {rebuilt['swapped']}; {public.failed} refused or failed, {public.backwards} went backwards"
        )
        await self._deployment.close()
        return all(clean) and rebuilt["swapped"] and not public.failed and not public.backwards

    async def _kill_half_way(self) -> None:
        process = await tally(self._supervisor, "replay", "run", "--projection", "votes", "--execute")
        generations = PROJECTIONS[Rebuildable.VOTES].generations(self._deployment)
        while True:
            found = list((await generations.read_all()).values())
            folded = sum(one.position.offset for each in found for one in each.others.values() if one.position)
            if folded > sum(each.live.position.offset for each in found if each.live.position) / 2:
                break
            await asyncio.sleep(0.05)
        process.kill()
        await process.wait()
        print(f"killed with -9 at {folded:,} events")

    async def _live_loop(self) -> float:
        """Events a second of a projector of its own, into views of its own, up to where the log ends now."""
        namespace = self._deployment.namespace
        topic = votes_topic(namespace, self._deployment.partitions)
        settings = KafkaSettings(kafka_bootstrap_servers=self._deployment.addresses.kafka)
        async with LogReader(settings) as reader:
            ends = await reader.end_offsets(topic.name, range(topic.partitions))
        views = VoteViews(self._valkey, f"{namespace}-again", topic.partitions)
        addresses = AddressCounters(self._valkey, f"{namespace}-again")
        projection = VotesProjection(topic, views, addresses)
        return (await fold(settings, topic, projection, ends, "again")).value

    async def _memory(self) -> int:
        return int((await read_info(self._valkey, "memory"))["used_memory"])


async def measured(votes: int) -> bool:
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=10, body=running())
        return await Bench(supervisor, contest).run(votes)


def main(votes: int = 1_000_000) -> None:
    if not asyncio.run(measured(votes)):
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
