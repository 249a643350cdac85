"""A contest with votes keeps its type, and a sealed one stays."""

import httpx

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally_json
from tests.support.clients.http_clients import http_client, ok
from tests.support.clients.retried import final_answer
from tests.support.clients.sources import a_source
from tests.support.clients.voting import Api, Contest, code, hours_from_now
from tests.support.eventually import eventually


async def retype(contest: Contest, contest_type: str) -> httpx.Response:
    return await contest.client.patch(contest.path, json={"contest_type": contest_type})


async def test_a_sealed_contest_is_deleted_only_after_it_was_unsealed(
    api: Api, legacy: httpx.AsyncClient, stack: Supervisor
) -> None:
    contest = await api.contest()
    await contest.vote(0)
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
    await tally_json(stack, "seal", contest.key, "--execute")
    refused = await api.client.delete(contest.path)
    assert code(refused) == (409, "contest_final")
    assert "unseal" in refused.json()["detail"]
    old = await legacy.delete(contest.path)
    assert (old.status_code, old.json()["error"]["code"]) == (400, "contest_final")
    assert (await api.client.get(contest.path)).status_code == 200
    await tally_json(stack, "unseal", contest.key, "--execute")
    assert (await api.client.delete(contest.path)).status_code == 204
    assert code(await api.client.get(contest.path)) == (404, "not_found")


async def test_a_contest_with_votes_is_deleted_by_one_request(api: Api, legacy: httpx.AsyncClient) -> None:
    for client in (api.client, legacy):
        contest = await api.contest()
        await contest.vote(0)
        assert (await client.delete(contest.path)).status_code == 204


async def test_the_type_is_fixed_once_votes_are_in(api: Api, legacy: httpx.AsyncClient) -> None:
    contest = await api.contest()
    assert (await retype(contest, "rating")).status_code == 200
    assert (await retype(contest, "voteonly")).status_code == 200
    vote = await contest.vote(0)
    await contest.counts(vote.headers["tally-position"])
    refused = await retype(contest, "rating")
    assert code(refused) == (409, "in_use")
    assert "has votes" in refused.json()["detail"]
    assert (await retype(contest, "voteonly")).status_code == 200
    old = await legacy.post(contest.path, json={"contest_type": "participation"})
    assert (old.status_code, old.json()["error"]["code"]) == (400, "in_use")
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
    assert (await api.client.get(contest.path)).json()["contest_type"] == "voteonly"


async def test_a_vote_that_was_removed_and_a_contest_without_votes_fix_nothing(api: Api) -> None:
    contest = await api.contest()
    vote = await contest.vote(0)
    assert (await contest.remove(vote)).status_code == 204

    async def can_change() -> bool:
        return (await retype(contest, "participation")).status_code == 200

    await eventually(can_change)


async def test_reported_votes_fix_the_type_too(api: Api) -> None:
    source = await a_source(api, "A")
    assert (await source.report(A=7)).status_code == 202
    assert code(await retype(source.contest, "rating")) == (409, "in_use")


async def test_the_end_of_a_vote_that_hides_its_counts_until_then_is_not_brought_forward_with_content_alone(
    api: Api, stack: Supervisor
) -> None:
    """Its counts could be read in the middle by ending it and reopening it."""
    contest = await api.contest(vote_visibility="hidden_until_end")
    made = await api.client.post("/keys", json={"permissions": ["content:read", "content:write"]})
    async with http_client(base_url=stack.stack["base_url"]) as editor:
        editor.headers["authorization"] = f"Bearer {ok(made, 201)['api_key']}"

        async def ends(hours: float) -> httpx.Response:
            body = {"contest_config": {"end": hours_from_now(hours)}}
            return await final_answer(lambda: editor.patch(contest.path, json=body))

        assert (await ends(0.9)).status_code == 200  # nobody has voted
        vote = await contest.vote(0)
        assert vote.status_code == 201
        refused = await ends(-0.001)
        assert code(refused) == (403, "forbidden")
        assert (await ends(1.5)).status_code == 200
        assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
