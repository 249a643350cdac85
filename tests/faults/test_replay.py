"""A replay while voters vote and readers read: killed, gone on with and swapped, and the projector killed then;
in the long form also rolled back and swapped again. No vote is lost, doubled or refused for it, no count fails
or goes backwards."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import orjson
import pytest

from libs.deployment.deployment import Deployment
from libs.local_stack.supervisor import Supervisor
from libs.views.generations.generations import Generation, ProjectionName, State
from services.cli.deployment_discovery import find_addresses
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api, Contest
from tests.support.eventually import eventually
from tests.support.run_profile import is_long
from tests.support.servers.deployments import compare

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
FILLED = 3_000
FOLDED = FILLED // 16
"""Of a partition, when its replay is killed."""
BATCH = 1_000
VOTERS = 6
PAUSE_S = 0.25
"""Between two votes of a voter, and two reads: commands and services do the work that is tested."""


@pytest.fixture(scope="module", autouse=True)
def patient() -> Iterator[None]:
    """Let votes wait for the killed projector, also on a busy machine: their partitions are not fenced then."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TALLY_PRODUCE_DEADLINE_MS", "60000")
        yield


@dataclass
class Public:
    """Those who vote and those who read, until stopped."""

    contest: Contest
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: int = 0
    other_answers: list[str] = field(default_factory=list)
    shown: list[int] = field(default_factory=lambda: [0])

    async def vote(self, seat: int) -> None:
        for number in count():
            if self.stop.is_set():
                return
            answer = await self.contest.vote(number % 2, f"voter {seat}.{number}")
            if answer.status_code == 201:
                self.accepted += 1
            else:
                self.other_answers.append(answer.text)
            await asyncio.sleep(PAUSE_S)

    async def read(self) -> None:
        while not self.stop.is_set():
            answer = await self.contest.client.get(f"{self.contest.path}/vote_updates/")
            assert answer.status_code == 200, answer.text
            shown = answer.json()["count"]
            assert shown >= self.shown[-1], f"{shown} after {self.shown[-1]}"
            self.shown.append(shown)
            await asyncio.sleep(PAUSE_S)


@dataclass(frozen=True)
class Operator:
    stack: Supervisor

    async def start(self, *arguments: str) -> asyncio.subprocess.Process:
        where = ["--execute", "--json", "--data-dir", str(self.stack.data_dir)]
        command = [sys.executable, "-m", "services.cli", "replay", *arguments, *where]
        return await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )

    async def replay(self, *arguments: str) -> dict[str, Any]:
        process = await self.start(*arguments, "--projection", "votes")
        printed, errors = await process.communicate()
        assert process.returncode == 0, printed + errors
        return json.loads(printed)

    async def kill_half_way(self) -> None:
        """While a partition is folded and others are not; if that was missed, kill another replay."""
        async with Deployment(find_addresses(self.stack.data_dir)) as deployment:
            generations = deployment.projections[ProjectionName.VOTES]

            async def half_way() -> bool:
                partitions = (await generations.read_all()).values()
                folded = [any(map(is_folded, found.others.values())) for found in partitions]
                is_swapping = len({found.swaps for found in partitions}) > 1
                return any(folded) and not all(folded) and not is_swapping

            async def was_killed() -> bool:
                process = await self.start("run", "--projection", "votes", "--parallel", "1")

                async def is_due() -> bool:
                    return process.returncode is not None or await half_way()

                await eventually(is_due, every_s=0.005)
                if process.returncode is None:
                    process.kill()
                assert await process.wait() in (0, -9), await process.communicate()
                return await half_way()

            await eventually(was_killed)

    async def rolls_back_and_swaps_again(self, generation: int) -> None:
        partitions = self.stack.stack["partitions"]
        [undone] = (await self.replay("rollback"))["rolled_back"]
        assert (undone["generation"], undone["partitions"]) == (generation, partitions)
        assert await self.is_clean()
        [again] = (await self.replay("run"))["rebuilt"]
        assert (again["swapped"], again["generation"], again["verified"]["changes"]) == (True, generation + 1, [])

    async def is_clean(self) -> int:
        """Compare the views with the log; return the number of its events."""
        report = await compare(find_addresses(self.stack.data_dir))
        assert report.equal, report.differences
        return report.events


def is_folded(one: Generation) -> bool:
    return one.state is State.BUILDING and one.position is not None and one.position.offset > FOLDED


async def fill(contest: Contest) -> None:
    async def post(first: int) -> None:
        votes = [
            {"participant_key": contest.participants[number % 2], "voter_id": f"filled {number}"}
            for number in range(first, first + BATCH)
        ]
        content, headers = orjson.dumps({"votes": votes}), {"content-type": "application/json"}
        answer = await contest.client.post(f"{contest.path}/votes/batch", content=content, headers=headers)
        assert answer.content.count(b'"status":201') == BATCH, answer.text[:300]

    await asyncio.gather(*(post(first) for first in range(0, FILLED, BATCH)))


async def test_nobody_is_the_worse_for_a_replay(stack: Supervisor) -> None:
    operator = Operator(stack)
    async with development_client(stack.stack) as client:
        contest = await Api(client).contest()
        await fill(contest)
        public = Public(contest)
        async with asyncio.TaskGroup() as group:
            for seat in range(VOTERS):
                group.create_task(public.vote(seat))
            group.create_task(public.read())
            await operator.kill_half_way()
            assert await operator.is_clean()
            [first] = (await operator.replay("run"))["rebuilt"]
            assert (first["resumed"], first["swapped"], first["verified"]["changes"]) == (True, True, [])
            assert 0 < first["events"] < await operator.is_clean() - FOLDED, "it began again"
            await stack.kill("projector")
            if is_long():
                await operator.rolls_back_and_swaps_again(first["generation"])
            before = public.accepted
            await eventually(lambda: public.accepted > before + 20)
            public.stop.set()
        assert public.other_answers == []

        async def all_counted() -> bool:
            return int((await contest.counts())["count"]) == FILLED + public.accepted

        await eventually(all_counted)
        assert await operator.is_clean()
