"""A further topic of the votes, created while votes run: contests before and after it."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import Result

from libs.deployment.deployment import Deployment
from libs.local_stack.servers import Servers
from libs.local_stack.supervisor import Supervisor
from services.cli.deployment_discovery import find_addresses
from tests.support.clients import commands
from tests.support.clients.positions import decoded
from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Api, Contest, new_id
from tests.support.eventually import eventually
from tests.support.servers.own_stack import open_own_stack

pytestmark = pytest.mark.slow
FIRST, LATER = 2, 3
"""Partitions of the two topics."""
Tally = Callable[..., Awaitable[Result]]
"""Runs a command on the deployment; it must succeed."""
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
    async def run(*arguments: str | Path) -> Result:
        done = await commands.tally(stack, *arguments)
        assert done.exit_code == 0, done.output
        return done

    return run


async def accepted(contest: Contest, voter: str) -> httpx.Response:
    """The answer of a vote, sent again with its id while a busy machine answers 503."""
    vote_id = new_id()
    answer = await final_answer(lambda: contest.vote(0, voter=voter, vote_id=vote_id))
    assert answer.status_code in (200, 201), answer.text
    return answer


async def contest_of_the_later_topic(api: Api, deployment: Deployment) -> Contest:
    """The first contest that is created in the topic that the growth created."""

    async def created() -> Contest | None:
        contest = await api.contest(participants=1)
        _, stored = await deployment.catalogue.contest_record(contest.key)
        return contest if stored.document.get("votes_from") == FIRST else None

    found = await eventually(created, every_s=1)
    assert found is not None
    return found


async def sealed(tally: Tally, contest: Contest, file: Path) -> dict[str, Any]:
    """The certificate of the contest, which ends now."""
    await contest.end(final=False)
    await tally("seal", contest.key, "--execute")
    shown = (await tally("certificate", "show", contest.key, "--json")).output
    await asyncio.to_thread(file.write_text, shown)
    await tally("certificate", "verify", file)
    return json.loads(shown)


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
        done = await commands.run("certificate", "verify", file, "--export", tmp_path / "export")
        assert done.exit_code == 0, done.output
