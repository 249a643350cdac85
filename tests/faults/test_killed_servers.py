"""Every part is killed or frozen while voters vote and take votes back: nothing that was answered is lost, doubled
or over a limit."""

import asyncio
import os
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path

import httpx
import pytest

from libs.local_stack.settings import StackSettings
from libs.local_stack.supervisor import Supervisor
from services.cli import bootstrap
from services.cli.discovery import find_addresses
from tests.support.deployments import compare
from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.voting import Api, Contest, new_id

pytestmark = pytest.mark.slow

VOTERS = 12
LIMIT = 20
SEND_DEADLINE_S = 2.0
FROZEN_S = 4.0
"""Longer than a send's deadline, and than Kafka's session: what is under way becomes unknown."""
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
                await asyncio.sleep(0.1)
                continue
            known = self.accepted if answer.status_code in (200, 201) else self.refused
            assert answer.status_code in (200, 201, 409), answer.text
            known[voter].add(vote_id)
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


@pytest.fixture(scope="module")
async def own_stack(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Supervisor]:
    """Servers of its own, which the other tests do not miss while they are down."""
    settings = StackSettings(
        data_dir=Path(tmp_path_factory.mktemp("faults")), kafka_bootstrap_servers=None, valkey_url=None
    )
    with pytest.MonkeyPatch.context() as environment:
        for name in ("TALLY_PRODUCE_DEADLINE_MS", "TALLY_KAFKA_REQUEST_TIMEOUT_MS"):
            environment.setenv(name, f"{1000 * SEND_DEADLINE_S:.0f}")
        async with Supervisor(settings, bootstrap, port=0, any_port=True) as supervisor:
            yield supervisor


async def kill(stack: Supervisor, name: str) -> None:
    await stack.kill(name)


async def freeze(stack: Supervisor, name: str) -> None:
    pid = stack.pids[name]
    os.kill(pid, signal.SIGSTOP)
    try:
        await asyncio.sleep(FROZEN_S)
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize(
    ("fault", "name"),
    [
        (kill, "projector"),
        (kill, "gateway"),
        (kill, "valkey"),
        (kill, "kafka"),
        (freeze, "kafka"),
        (freeze, "valkey"),
        (freeze, "projector"),
    ],
)
async def test_votes_outlive(own_stack: Supervisor, fault: object, name: str) -> None:
    description = own_stack.stack
    headers = {"Authorization": f"Bearer {description['api_key']}"}
    async with http_client(base_url=description["base_url"], headers=headers, timeout=20) as client:
        contest = await Api(client).contest(
            participants=3, free={"max_participant": LIMIT, "max_contest": 2 * LIMIT}
        )
        crowd = Crowd(contest)
        async with asyncio.TaskGroup() as voters:
            for number in range(VOTERS):
                voters.create_task(crowd.vote(number))
            await eventually(lambda: crowd.total > 100)
            await fault(own_stack, name)  # type: ignore[operator]
            before = crowd.total
            await eventually(lambda: crowd.total > before + 100)
            crowd.stop.set()
        await settled(client, contest, crowd)
        report = await compare(find_addresses(own_stack.data_dir), contest.key)
        assert report.equal, report.differences
        for voter, ids in crowd.accepted.items():
            assert crowd.left(voter) <= 2 * LIMIT
            assert ids.isdisjoint(crowd.refused[voter])


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
