"""Voters while containers are killed, upgraded and moved."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.faults.voters import Voters, settled
from tests.support.eventually import eventually
from tests.support.voting import Api

VOTERS = 6
LIMIT = 20


@asynccontextmanager
async def voting(client: httpx.AsyncClient) -> AsyncIterator[Voters]:
    """Voters before, during and after what the context does; at the end each of their votes is counted once."""
    contest = await Api(client).contest(participants=3, free={"max_participant": LIMIT, "max_contest": 2 * LIMIT})
    voters = Voters(contest)
    async with asyncio.TaskGroup() as group:
        for number in range(VOTERS):
            group.create_task(voters.vote(number))
        try:
            await eventually(lambda: voters.total > 20)
            yield voters
            before = voters.total
            await eventually(lambda: voters.total > before + 20 and sum(map(len, voters.removed.values())) > 10)
        finally:
            voters.stop.set()
    await settled(client, contest, voters)
