"""A killed replay is resumed from its position by the next run."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import orjson

from libs.views.generations.generations import State
from tests.services.cli.replay.context import ReplayContext, count, voted
from tests.support.eventually import eventually
from tests.support.voting import Api, Contest

VOTES = 6_000
BATCH = 2_000


async def many_votes(contest: Contest) -> None:
    async def post(first: int) -> None:
        votes = [
            {"participant_key": contest.participants[number % 2], "voter_id": f"v{number}"}
            for number in range(first, first + BATCH)
        ]
        answer = await contest.client.post(
            f"{contest.path}/votes/batch",
            content=orjson.dumps({"votes": votes}),
            headers={"content-type": "application/json"},
            timeout=60,
        )
        assert answer.content.count(b'"status":201') == BATCH, answer.text[:300]

    await asyncio.gather(*(post(first) for first in range(0, VOTES, BATCH)))

    async def folded() -> bool:
        return await count(contest) == VOTES

    await eventually(folded)


async def a_replay(context: ReplayContext, *more: str) -> asyncio.subprocess.Process:
    where = ["--projection", "votes", "--execute", "--json", "--data-dir", str(context.supervisor.data_dir)]
    command = [sys.executable, "-m", "services.cli", "replay", "run", *where, *more]
    root = Path(__file__).parents[4]
    return await asyncio.create_subprocess_exec(*command, cwd=root, stdout=asyncio.subprocess.PIPE)


async def killed_half_way(context: ReplayContext) -> int:
    """Kill a replay with -9 while it folds; the generation that it was making."""
    process = await a_replay(context, "--parallel", "1")

    async def half_way() -> int:
        for partition in (await context.generations().read_all()).values():
            for one in partition.others.values():
                if one.state is State.BUILDING and one.position is not None and one.position.offset > VOTES // 16:
                    return one.number
        return 0

    number = await eventually(half_way, every_s=0.005)
    process.kill()
    assert await process.wait() == -9
    return number


async def ended(process: asyncio.subprocess.Process) -> dict[str, Any]:
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed
    [rebuilt] = json.loads(printed)["rebuilt"]
    found: dict[str, Any] = rebuilt
    return found


async def test_killed_half_way_it_goes_on_where_it_was(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await many_votes(contest)
    live = await context.live()
    number = await killed_half_way(context)
    assert (await context.live(), await count(contest)) == (live, VOTES)
    [part] = (await context.run_json("replay", "plan", "--projection", "votes"))["parts"]
    assert part["resumes"] == number
    assert 0 < part["processed"] < part["events"]
    rebuilt = await ended(await a_replay(context))
    assert (rebuilt["generation"], rebuilt["resumed"], rebuilt["swapped"]) == (number, True, True)
    assert 0 < rebuilt["events"] < part["events"]
    assert (await context.live(), await count(contest)) == (number, VOTES)
    assert (await context.run_json("verify", contest.key))["equal"]


async def test_two_at_once_make_one_generation(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *map(str, range(9)))
    both = [await a_replay(context) for _ in range(2)]
    await asyncio.gather(*(process.communicate() for process in both))
    assert 0 in {process.returncode for process in both}
    assert await count(contest) == 9
    assert (await context.run_json("verify", contest.key))["equal"]
