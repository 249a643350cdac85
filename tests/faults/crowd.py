"""Voters who retry until they are answered, and the check that nothing they were told was lost or doubled."""

import asyncio
import random
import time
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import count

import httpx

from tests.support.eventually import eventually
from tests.support.voting import Contest, new_id

RETRIED = {500, 502, 503}


@dataclass
class Crowd:
    """Voters who vote until told to stop, and send a vote again until it is answered for good."""

    contest: Contest
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    accepted: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    refused: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    removed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    answers: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    acceptances: list[tuple[float, str]] = field(default_factory=list)
    """Times (of the monotonic clock) of the answers that accepted a vote, with their voters."""
    unavailable: list[tuple[float, str]] = field(default_factory=list)
    """Times of the votes that were answered with 503, with their voters."""

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
            await asyncio.sleep(0.02)

    async def _insist(self, voter: str, vote_id: str, participant: int) -> None:
        while True:
            try:
                answer = await self.contest.vote(participant, voter, vote_id=vote_id)
            except httpx.TransportError:
                await asyncio.sleep(0.1)
                continue
            self.answers[answer.status_code] += 1
            if answer.status_code in RETRIED:
                assert answer.status_code == 503, answer.text
                self.unavailable.append((time.monotonic(), voter))
                await asyncio.sleep(0.1)
                continue
            known = self.accepted if answer.status_code in (200, 201) else self.refused
            assert answer.status_code in (200, 201, 409), answer.text
            known[voter].add(vote_id)
            if known is self.accepted:
                self.acceptances.append((time.monotonic(), voter))
            return

    async def _insist_on_removal(self, voter: str, vote_id: str) -> None:
        while True:
            try:
                answer = await self.contest.remove(vote_id, voter)
            except httpx.TransportError:
                await asyncio.sleep(0.1)
                continue
            if answer.status_code == 503:
                await asyncio.sleep(0.1)
                continue
            assert answer.status_code == 204, answer.text
            self.removed[voter].add(vote_id)
            return

    def left(self, voter: str) -> int:
        """Votes that were accepted and not taken back."""
        return len(self.accepted[voter] - self.removed[voter])

    @property
    def total(self) -> int:
        return sum(map(self.left, list(self.accepted)))


async def settled(client: httpx.AsyncClient, contest: Contest, crowd: Crowd) -> None:
    """With nobody's help: every accepted vote is counted unless it was removed, no other one is, and no allowance
    is held back."""

    async def counts() -> int:
        answer = await client.get(f"{contest.path}/vote_updates/")
        return answer.json()["count"] if answer.status_code == 200 else -1

    await eventually(lambda: _equal(counts(), crowd.total))
    assert sum(map(len, crowd.removed.values())) > 10
    for voter in crowd.accepted:
        await eventually(partial(uses_what_is_left, contest, crowd, voter))


async def uses_what_is_left(contest: Contest, crowd: Crowd, voter: str) -> bool:
    """Reservations of requests whose end nobody heard are held until they are fenced."""
    answer = await contest.client.get(f"{contest.path}/allowance", params={"voter_id": voter})
    assert answer.status_code == 200, answer.text
    assert answer.json()["sources"][0]["contest"]["used"] == crowd.left(voter)
    return True


async def _equal(found: object, expected: int) -> bool:
    value = await found  # type: ignore[misc]
    assert value == expected
    return True
