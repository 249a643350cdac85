"""Runs `tally` commands on a deployment, and reads and tampers with its generations."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import msgpack
from typer.testing import Result

from libs.deployment.deployment import Deployment
from libs.local_stack.supervisor import Supervisor
from libs.replay.generation_fold import Replay
from libs.replay.targets import ReplayTarget, next_number
from libs.views.generations.generations import Generations, ProjectionName
from libs.views.valkey.client import ValkeyClient
from services.cli.deployment_discovery import find_addresses
from tests.support.clients.commands import tally
from tests.support.clients.voting import Contest


@dataclass(frozen=True)
class ReplayContext:
    supervisor: Supervisor
    deployment: Deployment

    @classmethod
    @asynccontextmanager
    async def open(cls, supervisor: Supervisor) -> AsyncIterator[Self]:
        async with Deployment(find_addresses(supervisor.data_dir)) as deployment:
            yield cls(supervisor, deployment)

    @property
    def valkey(self) -> ValkeyClient:
        return self.deployment.valkey

    async def run(self, *arguments: str) -> Result:
        """Run a command on the stack."""
        return await tally(self.supervisor, *arguments)

    async def run_json(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Return a command's JSON output; its exit code must be `code`."""
        result = await self.run(*arguments, "--json")
        assert result.exit_code == code, result.output
        return json.loads(result.stdout)

    async def of_votes(self, command: str, *arguments: str) -> Result:
        """Run a command of `tally replay` for the votes."""
        return await self.run("replay", command, "--projection", "votes", *arguments)

    async def replay(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Run `tally replay run --execute` for the votes; return its output for them."""
        done = await self.run_json("replay", "run", "--projection", "votes", "--execute", *arguments, code=code)
        [found] = done["rebuilt"]
        assert found["projection"] == "votes"
        return found

    def generations(self, name: ProjectionName = ProjectionName.VOTES) -> Generations:
        return self.deployment.projections[name]

    async def live(self, name: ProjectionName = ProjectionName.VOTES) -> int:
        """Return the number of the generation that is live in every partition."""
        [number] = {one.live.number for one in (await self.generations(name).read_all()).values()}
        return number

    async def begun(self) -> int:
        """Fold a generation of the votes up to the live one's position, as an interrupted replay leaves it."""
        generations = self.generations()
        number = next_number(await generations.read_all())
        projection = ReplayTarget(ProjectionName.VOTES).into(self.deployment, number)
        replay = Replay(projection, generations, self.deployment.reader, number)
        for partition in range(self.deployment.partitions):
            assert await generations.open(partition, number)
            await replay.follow([partition], lambda *_: None)
        return number

    async def keys_of(self, number: int, prefix: str = "") -> list[bytes]:
        pattern = f"{self.deployment.namespace}:[{{]{prefix}[0-9]*}}:g{number}:*"
        return await self.valkey.call("KEYS", pattern)

    async def spoil(self, contest: Contest, number: int | None = None, by: int = 100) -> None:
        """Change one count of one partition of a generation (by default the live one) by `by`."""
        number = await self.live() if number is None else number
        participant = contest.participants[0]
        for partition in range(self.deployment.partitions):
            key = f"{self.deployment.vote_views._base(partition)}:g{number}:counts:{contest.key}"
            packed = await self.valkey.call("HGET", key, participant)
            if packed is not None:
                row = msgpack.unpackb(packed)
                row[1] += by
                await self.valkey.call("HSET", key, participant, msgpack.packb(row))
                return
        raise AssertionError("nobody voted yet")


async def voted(contest: Contest, *names: str) -> None:
    """Cast one vote each for the first participant, and wait until they are counted."""
    answers = await asyncio.gather(*(contest.vote(0, name) for name in names))
    assert {answer.status_code for answer in answers} == {201}
    await contest.counts_with(*answers)


async def count(contest: Contest) -> int:
    """Return the served count, after waiting TALLY_COUNT_BUILD_INTERVAL_MS for older builds."""
    await asyncio.sleep(0.1)
    return int((await contest.counts())["count"])
