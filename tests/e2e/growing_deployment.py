"""Steps of the tests of several votes topics: contests of each, and their certificates."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from typer.testing import Result

from libs.deployment.deployment import Deployment
from libs.local_stack.supervisor import Supervisor
from tests.support.commands import tally
from tests.support.eventually import eventually
from tests.support.voting import Api, Contest, new_id

FIRST, LATER = 2, 3
"""Partitions of the two topics."""
Tally = Callable[..., Awaitable[Result]]
"""Runs a command on the deployment; it must succeed."""


def tally_on(stack: Supervisor) -> Tally:
    """Return the function that runs commands on a stack."""

    async def run(*arguments: str | Path) -> Result:
        done = await tally(stack, *arguments)
        assert done.exit_code == 0, done.output
        return done

    return run


async def accepted(contest: Contest, voter: str) -> httpx.Response:
    """The answer of a vote, sent again with its id while a busy machine answers 503."""
    vote_id = new_id()

    async def sent() -> httpx.Response:
        answer = await contest.vote(0, voter=voter, vote_id=vote_id)
        assert answer.status_code != 503, answer.text
        return answer

    answer = await eventually(sent)
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
    await contest.change(end=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    await tally("seal", contest.key, "--execute")
    shown = (await tally("certificate", "show", contest.key, "--json")).output
    await asyncio.to_thread(file.write_text, shown)
    await tally("certificate", "verify", file)
    found: dict[str, Any] = json.loads(shown)
    return found
