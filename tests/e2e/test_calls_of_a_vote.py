"""The number of Python functions that a gateway calls for a vote: printed, as the size of the hot path.

A gateway runs in this process, in a thread of its own. Calls of asyncio's own functions are left out, as the
service runs on uvloop, which has none, and those of tests.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from cProfile import Profile
from pathlib import Path
from typing import Any, Final

import orjson
import pytest
from fastapi import FastAPI

from libs.local_stack.supervisor import Supervisor
from services.cli.deployment_discovery import addresses_in
from services.gateway.app import open_app
from tests.support.clients.voting import Api, Contest, new_id, running
from tests.support.servers.gateway_settings import settings_beside
from tests.support.servers.serving import Client, served_apart
from tests.support.traced import ROOT

CLIENTS: Final = 128
VOTES: Final = 16
"""Votes of each client, one after another."""
BATCH: Final = 1_000
BATCHES: Final = 3
MOST_OF_A_VOTE: Final = 600
MOST_OF_A_VOTE_IN_A_BATCH: Final = 300
"""Bounds that a slow machine keeps, too, whose groups are smaller. See the printed numbers for what is usual."""
SHOWN: Final = 10
LEFT_OUT: Final = Path(asyncio.__file__).parent, ROOT / "tests"


class CountedGateway:
    """A gateway whose thread's calls are counted while a load runs."""

    def __init__(self, port: int, loop: asyncio.AbstractEventLoop) -> None:
        self._port = port
        self._loop = loop

    async def open(self) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", self._port))

    async def calls(self, votes: int, load: Awaitable[None]) -> Counter[str]:
        """Return the thousandths of calls of each function for a vote."""
        profile = Profile(builtins=False)
        await self._call(profile.enable)
        await load
        await self._call(profile.disable)
        found = Counter[str]()
        for entry in profile.getstats():
            code: Any = entry.code
            if not any(map(Path(code.co_filename).is_relative_to, LEFT_OUT)):
                found[f"{_short(code.co_filename)}:{code.co_firstlineno} {code.co_name}"] += entry.callcount
        return Counter({name: round(1_000 * number / votes) for name, number in found.items()})

    async def _call(self, function: Callable[[], object]) -> None:
        """Call a function in the gateway's thread."""
        done = asyncio.Event()
        here = asyncio.get_running_loop()

        def call() -> None:
            function()
            here.call_soon_threadsafe(done.set)

        self._loop.call_soon_threadsafe(call)
        await done.wait()


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else "/".join(path.parts[-2:])


@pytest.fixture
async def gateway(stack: Supervisor) -> AsyncIterator[CountedGateway]:
    settings, loops = settings_beside(addresses_in(stack.stack)), list[asyncio.AbstractEventLoop]()

    @asynccontextmanager
    async def opened() -> AsyncIterator[FastAPI]:
        loops.append(asyncio.get_running_loop())
        async with open_app(settings) as app:
            yield app

    async with served_apart(opened()) as (_, url, _):
        yield CountedGateway(int(url.rpartition(":")[2]), loops[0])


async def test_single_votes(api: Api, gateway: CountedGateway, capsys: pytest.CaptureFixture[str]) -> None:
    contest = await api.contest(participants=10, body=running(free={"max_participant": 3}))
    clients = [await gateway.open() for _ in range(CLIENTS)]
    await all_vote(contest, clients, 2)  # loads keys, secrets and the contest
    calls = await gateway.calls(CLIENTS * VOTES, all_vote(contest, clients, VOTES))
    for client in clients:
        client.close()
    show(capsys, f"one vote a request, {CLIENTS} clients", calls)
    assert calls.total() / 1_000 < MOST_OF_A_VOTE


async def test_batches(api: Api, gateway: CountedGateway, capsys: pytest.CaptureFixture[str]) -> None:
    contest = await api.contest(participants=10, body=running(free={"max_participant": 3}))
    client = await gateway.open()
    await post_batches(contest, client, 1)
    calls = await gateway.calls(BATCHES * BATCH, post_batches(contest, client, BATCHES))
    client.close()
    show(capsys, f"batches of {BATCH:,}", calls)
    assert calls.total() / 1_000 < MOST_OF_A_VOTE_IN_A_BATCH


async def all_vote(contest: Contest, clients: list[Client], votes: int) -> None:
    async def vote(client: Client) -> None:
        for body in bodies(contest, votes):
            client.send(request(contest, "votes", orjson.dumps(body)))
            status, answer = await client.answer()
            assert status == 201, answer

    await asyncio.gather(*map(vote, clients))


async def post_batches(contest: Contest, client: Client, batches: int) -> None:
    for _ in range(batches):
        client.send(request(contest, "votes/batch", orjson.dumps({"votes": [*bodies(contest, BATCH)]})))
        status, answer = await client.answer()
        assert (status, answer.count(b'"status":201')) == (200, BATCH), answer[:300]


def bodies(contest: Contest, votes: int) -> Iterator[dict[str, str]]:
    """Yield votes of new voters, three each."""
    base = new_id()
    for number in range(votes):
        participant = contest.participants[number % len(contest.participants)]
        yield {"participant_key": participant, "voter_id": f"{base}-{number // 3}"}


def request(contest: Contest, path: str, body: bytes) -> bytes:
    head = (
        f"POST {contest.path}/{path} HTTP/1.1\r\nHost: here\r\nContent-Length: {len(body)}\r\n"
        f"Authorization: {contest.client.headers['authorization']}\r\nContent-Type: application/json\r\n\r\n"
    )
    return head.encode() + body


def show(capsys: pytest.CaptureFixture[str], load: str, calls: Counter[str]) -> None:
    with capsys.disabled():
        print(f"\n{load}: {calls.total() / 1_000:.0f} calls of Python functions a vote in the gateway")
        for name, thousandths in calls.most_common(SHOWN):
            print(f"{thousandths / 1_000:8.2f} {name}")
