"""Replay of the votes log against the live fold of the same log: `python -m tests.benchmarks.bench_replay`.

Votes come in by batches over HTTP; then `tally replay run` folds them into a new generation, verifies and swaps
it, and the projector's own loop folds them into views of its own. `tally verify` compares the views with the
log, by as many processes as it chooses and by one.
"""

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import orjson

from libs.contracts.topics import votes_topic
from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_projector import fold_all
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.voting import Contest, new_id, running

LIVE, ALONE = "live fold", "one process"
BATCH = 1_000
CLIENTS = 4


async def measure(scale: Scale) -> list[Measurement]:
    return (await replayed(scale.pick(20_000, 1_000_000)))[0]


async def replayed(votes: int, verify_goals: Sequence[Goal] = ()) -> tuple[list[Measurement], float]:
    """Return the rate of a replay of so many votes, the time of a verification, and that of the replay."""
    async with whole_service() as (supervisor, api):
        contest = await api.contest(participants=10, body=running())
        await fill(contest, votes)
        process = await tally(supervisor, "replay", "run", "--projection", "votes", "--execute")
        [rebuilt] = (await printed(process))["rebuilt"]
        assert rebuilt["swapped"], rebuilt
        live = await live_fold(supervisor)
        verified, alone = [await verification(supervisor, *arguments) for arguments in ((), ("--processes", "1"))]
    rate = rebuilt["events_per_s"]
    rates = Party(OURS, [Run(rate)])
    peer = Party(LIVE, [live], "no verification, no swap")
    name = f"replay of {votes:,} votes"
    measurements = [
        Measurement(name, "events/s", "higher", rates, [peer], goals=[Goal(1.0, LIVE)]),
        Measurement(
            f"verification of {votes:,} votes",
            "s",
            "lower",
            Party(OURS, [verified]),
            [Party(ALONE, [alone])],
            goals=verify_goals,
        ),
    ]
    return measurements, rebuilt["events"] / rate


async def verification(supervisor: Supervisor, *arguments: str) -> Run:
    report = await printed(await tally(supervisor, "verify", *arguments))
    assert report["equal"], report["differences"]
    return Run(report["seconds"])


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


async def live_fold(supervisor: Supervisor) -> Run:
    topic = votes_topic(supervisor.stack["namespace"], supervisor.stack["partitions"])
    return await fold_all(supervisor.addresses, topic)


if __name__ == "__main__":
    alone("Replay", measure)
