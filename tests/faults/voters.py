"""Voters who retry until they are answered, and the check that no answered vote was lost or doubled."""

import asyncio
import random
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import httpx

from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Api, Contest, code, new_id
from tests.support.eventually import DEADLINE_S, eventually

PAUSE_S = 0.1
"""Between two votes of a voter, so that the voters do not take all the CPU time."""


@dataclass
class Voters:
    """Voters who vote until stopped, and send a vote again until it is answered for good."""

    contest: Contest
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    acceptances: list[tuple[float, str]] = field(default_factory=list)
    """Times (of the monotonic clock) of the answers that accepted a vote, with their voters."""
    unavailable: list[tuple[float, str, str]] = field(default_factory=list)
    """Times of the answers with 503, with their voters and the problems' codes."""
    deadline_s: float = DEADLINE_S
    """Time within which each request gets its final answer."""

    async def vote(self, seat: int) -> None:
        """In the name of one voter after another, each until the limits refuse them."""
        names = (f"voter {seat}.{number}" for number in count())
        voter = next(names)
        while not self.stop.is_set():
            vote_id = new_id()
            if self.refused[voter]:
                voter = next(names)
            copies = random.choice((1, 1, 1, 2))
            participant = random.randrange(len(self.contest.participants))
            await asyncio.gather(*(self._insist(voter, vote_id, participant) for _ in range(copies)))
            if vote_id in self.accepted[voter] and random.random() < 0.2:
                await asyncio.gather(*(self._insist_on_removal(voter, vote_id) for _ in range(copies)))
            await asyncio.sleep(PAUSE_S)

    async def _insist(self, voter: str, vote_id: str, participant: int) -> None:
        answer = await final_answer(
            lambda: self.contest.vote(participant, voter, vote_id=vote_id),
            lambda answer: self.unavailable.append((time.monotonic(), voter, str(code(answer)[1]))),
            deadline_s=self.deadline_s,
        )
        assert answer.status_code in (200, 201, 409), answer.text
        if answer.status_code == 409:
            self.refused[voter].add(vote_id)
            return
        self.accepted[voter].add(vote_id)
        self.acceptances.append((time.monotonic(), voter))

    async def _insist_on_removal(self, voter: str, vote_id: str) -> None:
        answer = await final_answer(lambda: self.contest.remove(vote_id, voter), deadline_s=self.deadline_s)
        assert answer.status_code == 204, answer.text
        self.removed[voter].add(vote_id)

    def left(self, voter: str) -> int:
        """Votes that were accepted and not taken back."""
        return len(self.accepted[voter] - self.removed[voter])

    @property
    def total(self) -> int:
        return sum(map(self.left, list(self.accepted)))

    def are_within(self, limit: int) -> None:
        """No voter has more votes than the limit, and no vote that was refused."""
        for voter, ids in self.accepted.items():
            assert self.left(voter) <= limit
            assert ids.isdisjoint(self.refused[voter])


async def a_limited_contest(client: httpx.AsyncClient, limit: int) -> Contest:
    """Create a contest with `limit` votes of a voter for each of three participants, and twice as many in all."""
    return await Api(client).contest(participants=3, free={"max_participant": limit, "max_contest": 2 * limit})


@asynccontextmanager
async def voting(voters: Voters, seats: int) -> AsyncIterator[asyncio.TaskGroup]:
    """Let voters vote, and stop them at the end; the context's value runs others beside them."""
    async with asyncio.TaskGroup() as group:
        for seat in range(seats):
            group.create_task(voters.vote(seat))
        try:
            yield group
        finally:
            voters.stop.set()


async def settled(client: httpx.AsyncClient, contest: Contest, voters: Voters) -> None:
    """Without help: every accepted vote is counted unless it was removed, no other one is, and no allowance
    is held back."""

    async def all_are_counted() -> bool:
        answer = await client.get(f"{contest.path}/vote_updates/")
        assert answer.status_code == 200, answer.text
        assert answer.json()["count"] == voters.total
        return True

    await eventually(all_are_counted)
    assert sum(map(len, voters.removed.values())) > 10
    for voter in voters.accepted:
        await eventually(partial(uses_what_is_left, contest, voters, voter))


async def uses_what_is_left(contest: Contest, voters: Voters, voter: str) -> bool:
    """Reservations of requests that were not answered are held until they are fenced."""
    answer = await contest.client.get(f"{contest.path}/allowance", params={"voter_id": voter})
    assert answer.status_code == 200, answer.text
    assert answer.json()["sources"][0]["contest"]["used"] == voters.left(voter)
    return True
