"""A further topic of the votes, created while votes run: contests before and after it."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from typer.testing import CliRunner

from libs.deployment.deployment import Deployment
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from services.cli.__main__ import app
from services.cli.deployment_discovery import find_addresses
from tests.e2e.growing_deployment import (
    FIRST,
    LATER,
    Tally,
    accepted,
    contest_of_the_later_topic,
    sealed,
    tally_on,
)
from tests.support.own_stack import open_own_stack
from tests.support.positions import decoded
from tests.support.voting import Api, Contest, new_id

pytestmark = pytest.mark.slow
SETTLE_S = 4.0
"""Enough for the brokers' metadata on a busy machine."""


@pytest.fixture
async def stack(servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Supervisor]:
    """Gateway and projector of a deployment that grows."""
    monkeypatch.setenv("TALLY_VOTES_TOPIC_SETTLE_S", str(SETTLE_S))
    async with open_own_stack(servers, tmp_path / "stack", FIRST) as supervisor:
        yield supervisor


@pytest.fixture
def tally(stack: Supervisor) -> Tally:
    return tally_on(stack)


@asynccontextmanager
async def voting(contest: Contest, voters: list[str]) -> AsyncIterator[None]:
    """Vote without a pause while the context is open; `voters` receives those who did."""
    is_over = asyncio.Event()

    async def vote() -> None:
        while not is_over.is_set():
            voter = new_id()
            await accepted(contest, voter)
            voters.append(voter)

    task = asyncio.create_task(vote())
    try:
        yield
    finally:
        is_over.set()
        await task


async def test_contests_before_and_after_a_growth_vote_close_seal_replay_and_verify(
    api: Api, stack: Supervisor, tally: Tally, tmp_path: Path
) -> None:
    old, voters = await api.contest(participants=1), list[str]()
    before = await accepted(old, "before")
    async with Deployment(find_addresses(stack.data_dir)) as deployment:
        preview = json.loads((await tally("topics", "grow", "--partitions", str(LATER), "--json")).output)
        later = f"{deployment.votes.name}.{FIRST}"
        assert (preview["topic"], preview["partitions"], preview["executed"]) == (later, LATER, False)
        assert later not in await deployment.reader.topics()
        async with voting(old, voters):
            await tally("topics", "grow", "--partitions", str(LATER), "--execute")
            new = await contest_of_the_later_topic(api, deployment)
            votes = [await accepted(new, f"v{number}") for number in range(12)]
        assert await deployment.reader.topics() >= {deployment.votes.name, later}

    storage = stack.stack["storage_url"]
    assert set(await decoded(storage, before.headers["tally-position"])) < set(range(FIRST))
    in_later = set().union(*[await decoded(storage, vote.headers["tally-position"]) for vote in votes])
    assert in_later <= set(range(FIRST, FIRST + LATER))
    assert len(in_later) > 1
    assert (await old.counts(before.headers["tally-position"]))["count"] >= 1
    assert (await new.counts_with(*votes))["count"] == 12
    assert (await new.allowance("v1"))["contest"]["used"] == 1
    assert (await new.status(votes[1], "v1"))["status"] == "counted"
    removed = await new.remove(votes[0], "v0")
    assert removed.status_code == 204, removed.text

    certificates = [await sealed(tally, each, tmp_path / f"{each.key}.json") for each in (old, new)]
    assert [one["result"]["count"] for one in certificates] == [1 + len(voters), 11]
    assert [[each["partition"] for each in one["partitions"]] for one in certificates] == [
        list(range(FIRST)),
        list(range(FIRST, FIRST + LATER)),
    ]
    await tally("verify")
    await tally("replay", "run", "--projection", "votes", "--execute")
    await tally("verify")
    await tally("topics", "check")
    assert (await new.counts())["count"] == 11
    assert (await old.counts())["count"] == 1 + len(voters)

    await tally("export", "--to", tmp_path / "export")
    for each in (old, new):
        file = tmp_path / f"{each.key}.json"
        done = await asyncio.to_thread(
            CliRunner().invoke,
            app,
            ["certificate", "verify", str(file), "--export", str(tmp_path / "export")],
        )
        assert done.exit_code == 0, done.output
