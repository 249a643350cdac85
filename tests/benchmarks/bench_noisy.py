"""Latency of one account's votes beside another account that does the worst that it may, against none.

`python -m tests.benchmarks.bench_noisy [rounds]`: the same votes as beside hostile connections. The client of the
noisy account takes CPU time of the same machine, so run it where that is free.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from libs.local_stack.supervisor import Supervisor
from tests.benchmarks.alone import alone
from tests.benchmarks.bench_hostile import cast
from tests.benchmarks.measurement import OURS, Goal, Measurement, Party, Run, Scale
from tests.benchmarks.stack import whole_service
from tests.support.clients.http_clients import http_client
from tests.support.clients.noisy_account import noise
from tests.support.clients.stack_keys import new_key

QUIET: Final = "no noisy account"
GOAL: Final = 0.334
"""The quiet p99 over the other one, at least: below three times as long."""
KEY: Final = "NOISY_ACCOUNT_KEY"
EVERY_S: Final = 5.0
"""Time between two lines of the noisy account."""
FEWEST: Final = 50
"""Answers after which it has found the largest records that are accepted."""


async def measure(scale: Scale) -> list[Measurement]:
    seconds = scale.pick(3, 20)
    noisy, quiet = list[Run](), list[Run]()
    async with whole_service() as (supervisor, api):
        contest = await api.contest()
        await cast(contest, seconds)
        for _ in range(scale.rounds):
            quiet.append(await cast(contest, seconds))
            async with noisy_account(supervisor):
                noisy.append(await cast(contest, seconds))
            print(quiet[-1], noisy[-1], file=sys.stderr, flush=True)
    beside = [Party(QUIET, quiet)]
    return [
        Measurement(
            "beside a noisy account: p99", "ms", "lower", Party(OURS, noisy), beside, goals=[Goal(GOAL, QUIET)]
        )
    ]


@asynccontextmanager
async def noisy_account(supervisor: Supervisor) -> AsyncIterator[None]:
    """Run the account's client in a process of its own, so that it takes no time of the voters' client."""
    key = await new_key(supervisor, account="noisy")
    command = [sys.executable, "-m", "tests.benchmarks.bench_noisy", "noise", supervisor.base_url]
    environment = os.environ | {KEY: key.api_key}
    client = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, env=environment)
    assert client.stdout is not None
    await client.stdout.readline()
    try:
        yield
    finally:
        client.terminate()
        await client.wait()


async def make_noise(base_url: str) -> None:
    headers = {"authorization": f"Bearer {os.environ[KEY]}"}
    async with http_client(base_url=base_url, headers=headers, timeout=60) as client, noise(client) as account:
        while True:
            await asyncio.sleep(EVERY_S)
            print(dict(account.statuses), file=sys.stderr, flush=True)
            if account.statuses.total() >= FEWEST:
                print("warm", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["noise"]:
        asyncio.run(make_noise(sys.argv[2]))
    else:
        alone("Votes beside a noisy account", measure)
