"""`tally erase-contest-secret`: voters can no longer be looked up, and counts stay the same."""

from functools import partial

import httpx
import pytest

from libs.catalogue.contests.seals import erased
from libs.catalogue.resource_table import CONTESTS
from libs.deployment.deployment import Deployment
from libs.local_stack.supervisor import Supervisor
from libs.storage.object_store import open_store
from libs.storage.secrets import contest_secret
from libs.tally.errors import SecretErased
from services.cli.deployment_discovery import find_addresses
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.voting import Api, Contest, code, hours_from_now
from tests.support.eventually import eventually

GONE = (410, "gone")


async def a_voted_contest(api: Api) -> tuple[Contest, httpx.Response]:
    """Closed, with one vote."""
    contest = await api.contest()
    vote = await contest.vote(0, vote_id="v")
    await contest.counts_with(vote)
    await contest.end()
    return contest, vote


async def look_ups(contest: Contest, vote: httpx.Response) -> list[tuple[int, str | None]]:
    """Requests about a voter: a status, an allowance, a removal."""
    voter = {"voter_id": "v1"}
    answers = [
        await contest.client.get(f"{contest.path}/votes/{vote.json()['vote_id']}", params=voter),
        await contest.client.get(f"{contest.path}/allowance", params=voter),
        await contest.remove(vote),
    ]
    return [code(answer) for answer in answers]


async def test_only_a_sealed_contest_loses_its_secret_and_a_preview_destroys_nothing(
    api: Api, stack: Supervisor
) -> None:
    contest, vote = await a_voted_contest(api)
    refused = await tally(stack, "erase-contest-secret", contest.key, "--execute")
    assert (refused.exit_code, "tally seal" in refused.stderr) == (1, True)
    await tally_json(stack, "seal", contest.key, "--execute")
    preview = await tally(stack, "erase-contest-secret", contest.key)
    assert preview.exit_code == 0
    assert "can never be reopened" in preview.stdout
    assert "--execute" in preview.stdout
    assert (await contest.status(vote))["status"] == "counted"
    assert (await tally(stack, "erase-contest-secret", "none")).exit_code == 2


@pytest.mark.secured
async def test_every_look_up_by_voter_is_gone_and_the_counts_stay(api: Api, stack: Supervisor) -> None:
    contest, vote = await a_voted_contest(api)
    before = await contest.counts()
    await tally_json(stack, "seal", contest.key, "--execute")
    assert (await contest.status(vote))["status"] == "counted"
    erased_at = (await tally_json(stack, "erase-contest-secret", contest.key, "--execute"))["erased_at"]

    async def is_gone() -> bool:
        assert await look_ups(contest, vote) == [GONE] * 3
        return code(await contest.vote(0, vote_id="v")) == GONE

    await eventually(is_gone)
    assert await contest.counts() == before
    with pytest.raises(SecretErased):
        await contest_secret(open_store(find_addresses(stack.data_dir).storage_url), contest.key)
    assert (await tally(stack, "verify", contest.key)).exit_code == 0
    again = await tally_json(stack, "erase-contest-secret", contest.key, "--execute")
    assert again["erased_at"] == erased_at
    shown = (await contest.client.get(contest.path)).json()
    assert "secret_erased" not in shown


async def test_an_erased_contest_is_never_reopened(api: Api, stack: Supervisor) -> None:
    """Nor where the command was stopped before it had destroyed the secret; it goes on where it was."""
    contest, vote = await a_voted_contest(api)
    await tally_json(stack, "seal", contest.key, "--execute")
    assert (await contest.status(vote))["status"] == "counted"
    async with Deployment(find_addresses(stack.data_dir)) as deployment:
        account, records = await deployment.catalogue.owner_of(contest.key), deployment.catalogue.record_service()
        await (await records).amend(CONTESTS, account, contest.key, partial(erased, now=1))
    end = hours_from_now(1)
    answer = await api.client.post(f"/contests/{contest.key}/reopen", json={"end": end})
    assert code(answer) == (409, "contest_final")
    command = await tally(stack, "reopen", contest.key, "--end", end, "--execute")
    assert (command.exit_code, "can never be reopened" in command.stderr) == (1, True)
    store = open_store(find_addresses(stack.data_dir).storage_url)
    assert await contest_secret(store, contest.key)

    async def is_gone() -> bool:
        return await look_ups(contest, vote) == [GONE] * 3

    await eventually(is_gone)
    assert (await tally(stack, "erase-contest-secret", contest.key, "--execute")).exit_code == 0
    with pytest.raises(SecretErased):
        await contest_secret(store, contest.key)
