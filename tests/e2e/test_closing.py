"""Contests over HTTP around their end: closed automatically, reopened on request."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from services.cli.deployment_discovery import find_addresses
from tests.support.clients.commands import printed, tally
from tests.support.clients.http_clients import http_client
from tests.support.clients.retried import final_answer
from tests.support.clients.voting import Api, Contest, code, hours_from_now, moment, new_id
from tests.support.eventually import eventually
from tests.support.servers.deployments import compare
from tests.support.servers.frozen_process import stopped

pytestmark = pytest.mark.slow


def in_seconds(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


async def reopen(contest: Contest, end: str, **headers: str) -> httpx.Response:
    path = f"/operations/contests/{contest.key}/reopen"
    return await contest.client.post(path, json={"end": end}, headers=headers)


async def vote_over_the_end(contest: Contest) -> list[httpx.Response]:
    """Voters without a pause until all are refused; a vote that is answered with 503 is sent again."""
    answers: list[httpx.Response] = []
    while True:
        votes = await asyncio.gather(*(vote_insistently(contest) for _ in range(8)))
        answers += votes
        if all(vote.status_code == 409 for vote in votes):
            return answers


async def vote_insistently(contest: Contest) -> httpx.Response:
    voter, vote_id = new_id(), new_id()
    return await final_answer(lambda: contest.vote(0, voter=voter, vote_id=vote_id))


async def left_alone(stack: Supervisor, is_over: asyncio.Event) -> None:
    """Fair weather."""


async def frozen(stack: Supervisor, is_over: asyncio.Event) -> None:
    """No fold over the end: what was received before counts all the same, however late that is seen."""
    with stopped(stack.pids["projector"]):
        await is_over.wait()


async def killed_again_and_again(stack: Supervisor, is_over: asyncio.Event) -> None:
    """Whenever it runs, until over the end, and once more between one mark and the next."""
    async with http_client(base_url=stack.metrics_urls["projector"].removesuffix("/metrics")) as client:

        async def lives() -> bool:
            with suppress(httpx.TransportError):
                return (await client.get("/livez")).is_success
            return False

        is_last = False
        while not is_last:
            await eventually(lives)
            is_last = is_over.is_set()
            await stack.kill("projector")


@pytest.mark.parametrize("fault", [left_alone, frozen, killed_again_and_again])
async def test_exactly_what_was_received_before_the_end_counts(
    api: Api, stack: Supervisor, fault: Callable[[Supervisor, asyncio.Event], Coroutine[Any, Any, None]]
) -> None:
    contest = await api.contest()
    first = await vote_insistently(contest)
    assert (await contest.change(end=in_seconds(1.5))).status_code == 200
    record = await final_answer(lambda: api.client.get(contest.path))
    end = moment(record.json()["contest_config"]["end"])
    suffering = asyncio.create_task(fault(stack, is_over := asyncio.Event()))
    try:
        answers = [first, *await vote_over_the_end(contest)]
    finally:
        is_over.set()
    accepted = [answer.json() for answer in answers if answer.is_success]
    assert accepted
    assert all(moment(vote["accepted_at"]) < end for vote in accepted)
    assert {code(answer) for answer in answers if not answer.is_success} == {(409, "contest_not_running")}
    await suffering
    await contest.becomes_final()
    counted = await contest.counts()
    assert counted["count"] == len(accepted)
    assert counted["unique_voter_count"] == len(accepted)
    report = await compare(find_addresses(stack.data_dir), contest.key)
    assert report.equal, report.differences


async def test_a_final_result_stays_whatever_is_changed(api: Api) -> None:
    contest = await api.contest(participants=3)
    first, second, third = contest.participants
    await contest.vote(0)
    await contest.vote(1)
    rejected = await api.client.patch(f"/participants/{second}", json={"status": "rejected"})
    assert (rejected.status_code, rejected.headers.get("tally-waits-for")) == (200, None)
    await contest.change(end=in_seconds(-1))
    await contest.becomes_final()
    final = await contest.counts()
    assert final["count"] == 1
    for key, status, waits in (
        (first, "rejected", "reopening"),
        (first, "approved", None),
        (first, "rejected", "reopening"),
        (second, "approved", "reopening"),
    ):
        answer = await api.client.patch(f"/participants/{key}", json={"status": status})
        found = answer.json()
        assert (answer.status_code, found["status"]) == (200, status)
        assert (found["waits_for_reopening"], answer.headers.get("tally-waits-for")) == (waits is not None, waits)
    assert (await api.client.get(f"/participants/{third}")).json()["waits_for_reopening"] is False
    assert code(await contest.change(end=hours_from_now(2))) == (409, "contest_final")
    assert code(await contest.change(start=hours_from_now(-3))) == (409, "contest_final")
    retyped = await api.client.patch(contest.path, json={"contest_type": "rating"})
    assert code(retyped) == (409, "contest_final")
    assert (await contest.change(free={"max_contest": 9})).status_code == 200
    for key in (first, second):
        assert code(await api.client.delete(f"/participants/{key}")) == (409, "contest_final")
    assert (await api.client.delete(f"/participants/{third}")).status_code == 204
    now = await contest.counts()
    assert await contest.finality() == "final"
    assert (now["count"], now["participants"][first]) == (1, final["participants"][first])
    assert second not in now["participants"]
    assert (await reopen(contest, hours_from_now(1))).status_code == 200
    now = await contest.counts()
    assert (now["count"], list(now["participants"])) == (1, [second])
    assert (await api.client.delete(f"/participants/{first}")).status_code == 204


async def test_a_reopening_is_sent_again_by_its_key(api: Api) -> None:
    contest = await api.contest(end=in_seconds(-1))
    await contest.becomes_final()
    end, key = hours_from_now(1), {"Idempotency-Key": new_id()}
    assert code(await reopen(contest, end, **{"Idempotency-Key": "no key"})) == (422, "validation_failed")
    first, again = await reopen(contest, end, **key), await reopen(contest, end, **key)
    assert (first.status_code, first.headers.get("idempotent-replayed")) == (200, None)
    assert (again.status_code, again.headers["idempotent-replayed"], again.json()) == (200, "true", first.json())
    assert code(await reopen(contest, hours_from_now(2), **key)) == (422, "idempotency_key_reused")
    assert (await reopen(contest, end)).headers.get("idempotent-replayed") is None


async def test_the_command_previews_and_reopens(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(participants=3)
    reopen_it, end = partial(tally, stack, "reopen", contest.key, "--end"), hours_from_now(1)
    open_one = await reopen_it(end)
    assert (open_one.exit_code, "is not closed" in open_one.output) == (1, True)
    votes = [await contest.vote(0, "ann"), await contest.vote(0, "bob"), await contest.vote(1, "ann")]
    await contest.counts_with(*votes)
    await contest.end()
    rejected = f"/participants/{contest.participants[0]}"
    assert (await api.client.patch(rejected, json={"status": "rejected"})).json()["waits_for_reopening"]
    for wrong in ("tomorrow", in_seconds(-1)):
        assert (await reopen_it(wrong)).exit_code == 2
    preview = await reopen_it(end)
    assert (preview.exit_code, "--execute" in preview.output) == (0, True)
    assert "approved -> rejected 2 -> -" in " ".join(preview.stdout.split())
    rows = printed(await reopen_it(end, "--json"))["participants"]
    assert [[row[name] for name in ("status", "votes", "rank")] for row in rows] == [
        [["approved", "rejected"], [2, None], [1, None]],
        [["approved", "approved"], [1, 1], [2, 1]],
        [["approved", "approved"], [0, 0], [3, 2]],
    ]
    assert (await contest.finality(), (await contest.counts())["count"]) == ("final", 3)
    assert printed(await reopen_it(end, "--execute", "--json"))["executed"] is True
    assert (await contest.counts())["count"] == 1
    assert (await contest.vote(1, voter="again")).status_code == 201
