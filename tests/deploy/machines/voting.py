"""Voters while containers are killed, upgraded and moved."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx

from tests.faults import voters as people
from tests.faults.voters import Voters, a_limited_contest, settled
from tests.support.eventually import eventually

VOTERS = 6
LIMIT = 20
ANSWERED_S = 600.0
"""Containers that were killed are started again within minutes on a busy machine."""


@asynccontextmanager
async def voting(client: httpx.AsyncClient) -> AsyncIterator[Voters]:
    """Voters before, during and after what the context does; at the end each of their votes is counted once."""
    voters = Voters(await a_limited_contest(client, LIMIT), deadline_s=ANSWERED_S)
    async with people.voting(voters, VOTERS):
        await eventually(lambda: voters.total > 20)
        yield voters
        before = voters.total
        await eventually(lambda: voters.total > before + 20 and sum(map(len, voters.removed.values())) > 10)
    await settled(client, voters.contest, voters)
