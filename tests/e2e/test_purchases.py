"""From payment platform to votes: one purchase is one set of paid votes, despite any repetition."""

import asyncio
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.purchases_over_http import (
    PURCHASES,
    becomes,
    bought,
    paid,
    purchase,
    refund,
    send,
    wait_for_paid_votes,
)
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, Contest, code, new_id, running
from tests.support.eventually import eventually


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_purchase_casts_its_votes_once_however_often_it_is_sent(api: Api) -> None:
    contest = await api.contest()
    body = purchase(contest)
    answers = await asyncio.gather(*(api.client.post(PURCHASES, json=body) for _ in range(8)))
    assert {answer.status_code for answer in answers} == {202}
    assert sum("Idempotent-Replayed" not in answer.headers for answer in answers) == 1
    assert len({answer.json()["key"] for answer in answers}) == 1
    record = await becomes(api.client, answers[0].json(), "cast")
    await wait_for_paid_votes(contest, 50)
    again = await api.client.post(PURCHASES + "/", json=body)
    assert (again.status_code, again.headers["Idempotent-Replayed"]) == (202, "true")
    assert again.json() == record
    assert await paid(contest) == 50


@pytest.mark.secured
@pytest.mark.clustered
async def test_what_would_exceed_a_limit_is_cast_not_even_in_part(api: Api) -> None:
    contest = await api.contest(paid={"max_contest": 70, "max_participant": -1})
    await bought(contest, 50)
    over = await bought(contest, 50, "refused")
    assert over["refusal"]["code"] == "contest_limit_reached"
    assert "70" in over["refusal"]["reason"]
    await bought(contest, 20)
    await bought(contest, 50, user="another")
    await wait_for_paid_votes(contest, 120)


async def a_rating_contest(api: Api) -> Contest:
    return await api.contest(body=running(rating={"max_rating": 5}) | {"contest_type": "rating"})


async def a_contest_that_is_none(api: Api) -> Contest:
    return Contest(api.client, new_id(), [new_id()])


@pytest.mark.parametrize(
    ("make", "refusal"), [(a_rating_contest, "validation_failed"), (a_contest_that_is_none, "not_found")]
)
async def test_what_cannot_be_cast_stands_on_the_refund_list_until_it_is_refunded(
    api: Api, make: Any, refusal: str
) -> None:
    record = await bought(await make(api), status="refused")
    assert record["refusal"]["code"] == refusal
    assert record["refusal"]["reason"]
    assert (await refund_list(api))[record["key"]] == record
    assert (await refund(api.client, record))["status"] == "refunded"
    assert record["key"] not in await refund_list(api)


async def refund_list(api: Api) -> dict[str, Any]:
    answer = await api.client.get(f"{PURCHASES}/refunds", params={"limit": 100})
    assert answer.status_code == 200
    return {one["key"]: one for one in answer.json()["data"]}


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_refund_takes_back_the_votes_and_may_be_repeated(api: Api) -> None:
    contest = await api.contest(paid={"max_contest": 50, "max_participant": -1})
    record = await bought(contest)
    await wait_for_paid_votes(contest, 50)
    first = await refund(api.client, record)
    assert first == await refund(api.client, record) == await becomes(api.client, record, "refunded")
    by_token = await api.client.post(f"{PURCHASES}/refund", json={"purchase_token": record["purchase_token"]})
    assert (by_token.status_code, by_token.json()) == (202, first)
    await wait_for_paid_votes(contest, 0)
    await bought(contest)
    await wait_for_paid_votes(contest, 50)


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_refund_that_comes_first_lets_nothing_be_cast(api: Api) -> None:
    contest = await api.contest()
    body = purchase(contest)
    for _ in range(2):
        early = await api.client.post(f"{PURCHASES}/refund", json={"purchase_token": body["purchase_token"]})
        assert (early.status_code, early.json()["status"]) == (202, "refunded")
        assert set(early.json()) == {"key", "status"}
    key = early.json()["key"]
    assert code(await api.client.get(f"/api/purchases/{key}")) == (404, "not_found")
    record = await send(api.client, body)
    assert (record["key"], record["status"]) == (key, "refunded")
    await bought(contest, 7)
    await wait_for_paid_votes(contest, 7)


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_users_purchases_come_in_pages_newest_first(api: Api) -> None:
    contest = await api.contest()
    user = f"{new_id()}/ü?"
    sent = [(await send(api.client, purchase(contest, user=user)))["key"] for _ in range(7)]
    await send(api.client, purchase(contest, user=new_id()))
    path = f"/api/users/{user.replace('/', '%2F').replace('?', '%3F')}/purchases"
    seen: list[str] = []
    query: dict[str, Any] = {"limit": 3}
    while True:
        answer = await api.client.get(path, params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        seen += [record["key"] for record in page["data"]]
        assert page["has_more"] is (page["next"] is not None)
        if page["next"] is None:
            break
        query["next"] = page["next"]
    assert seen == sent[::-1]
    assert code(await api.client.get(path, params={"next": "nonsense"})) == (422, "validation_failed")
    assert code(await api.client.get(path, params={"limit": 0})) == (422, "validation_failed")
    nobody = await api.client.get(f"/api/users/{new_id()}/purchases/")
    assert nobody.json() == {"data": [], "has_more": False, "next": None}


@pytest.mark.secured
async def test_who_may_read_sees_masked_tokens_and_only_the_own_accounts_purchases(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest()
    body = purchase(contest, user=(user := new_id()))
    record = await send(api.client, body)
    account = stack.stack["account"]
    async with await client_with(stack, account, "purchases:read") as reader:
        one = (await reader.get(f"/api/purchases/{record['key']}/")).json()
        [listed] = (await reader.get(f"/api/users/{user}/purchases")).json()["data"]
        assert one["purchase_token"] == listed["purchase_token"] == body["purchase_token"][:4] + "…"
        for path in (PURCHASES, f"{PURCHASES}/{record['key']}/refund", f"{PURCHASES}/refund"):
            assert code(await reader.post(path, json=body)) == (403, "forbidden")
    async with await client_with(stack, account, "purchases:write") as writer:
        assert (await writer.post(PURCHASES, json=body)).json()["purchase_token"] == body["purchase_token"]
        for path in (f"{PURCHASES}/refunds", f"/api/users/{user}/purchases", f"/api/purchases/{record['key']}"):
            assert code(await writer.get(path)) == (403, "forbidden")
    async with await client_with(stack, f"a{new_id()}", "purchases:read", "purchases:write") as stranger:
        assert code(await stranger.get(f"/api/purchases/{record['key']}")) == (404, "not_found")
        assert code(await stranger.post(f"{PURCHASES}/{record['key']}/refund")) == (404, "not_found")
        assert (await stranger.get(f"/api/users/{user}/purchases")).json()["data"] == []
        same_token = await send(stranger, body)
        assert same_token["key"] != record["key"]
        refused = await becomes(stranger, same_token, "refused")
        assert refused["refusal"]["code"] == "not_found"
    await becomes(api.client, record, "cast")
    await wait_for_paid_votes(contest, 50)


async def test_a_refund_needs_a_known_key_or_a_token(api: Api) -> None:
    assert code(await api.client.post(f"{PURCHASES}/{'x' * 22}/refund")) == (404, "not_found")
    assert code(await api.client.post(f"{PURCHASES}/refund", json={})) == (422, "validation_failed")
    both = {"purchase_token": "t", "key": "k", "reason": "r"}
    assert code(await api.client.post(f"{PURCHASES}/refund", json=both)) == (422, "validation_failed")


async def test_an_anonymous_buyers_votes_are_an_anonymous_voters(api: Api) -> None:
    contest = await api.contest(paid={"is_anonymous": True, "max_contest": 10, "max_participant": -1})
    buyer: dict[str, Any] = {"user_id": None, "anonymous_id": f"device-{new_id()}"}
    record = await bought(contest, 7, **buyer)
    await wait_for_paid_votes(contest, 7)
    counts = await contest.counts()
    assert (counts["anonymous_voter_count"], counts["unique_voter_count"]) == (1, 1)
    refused = await bought(contest, 7, "refused", **buyer)
    assert refused["refusal"]["code"] == "contest_limit_reached"
    await bought(contest, 7, user=buyer["anonymous_id"])
    await wait_for_paid_votes(contest, 14)
    assert (await api.client.get(f"/api/users/{buyer['anonymous_id']}/purchases")).json()["data"] != [record]
    assert (await refund(api.client, record))["status"] == "refunded"
    await wait_for_paid_votes(contest, 7)


@pytest.mark.parametrize("resource", ["shops", "master_shops"])
async def test_a_package_bounds_the_votes_of_its_purchases(api: Api, resource: str) -> None:
    contest = await api.contest()
    packages = [{"title": "ten", "vote_count": 10}, {"title": "any"}]
    shop = (await api.client.post(f"/{resource}", json={"title": "Shop", "packages": packages})).json()
    ten, unbound = ({"shop_key": shop["key"], "package_key": package["key"]} for package in shop["packages"])
    answer = await api.client.post(PURCHASES, json=purchase(contest, 11, **ten))
    assert code(answer) == (422, "validation_failed")
    [error] = answer.json()["errors"]
    assert (error["pointer"], "10 votes" in error["message"]) == ("/vote/count", True)
    await bought(contest, 10, **ten)
    await bought(contest, 11, **unbound)
    await wait_for_paid_votes(contest, 21)


async def set_status(contest: Contest, participant: str, status: str) -> None:
    answer = await contest.client.patch(f"/participants/{participant}", json={"status": status})
    assert answer.status_code == 200, answer.text


def votes_for(contest: Contest, participant: int) -> dict[str, Any]:
    return {"contest_key": contest.key, "participant_key": contest.participants[participant], "count": 2}


async def test_a_rejected_participants_purchases_are_to_be_refunded_until_it_is_approved_again(api: Api) -> None:
    contest = await api.contest()
    first = contest.participants[0]
    record, untouched = await bought(contest, 7), await bought(contest, vote=votes_for(contest, 1))
    await wait_for_paid_votes(contest, 9)
    await set_status(contest, first, "rejected")
    uncounted = await becomes(api.client, record, "uncounted")
    assert uncounted["refusal"]["code"] == "participant_not_votable"
    assert first in uncounted["refusal"]["reason"]
    found = await refund_list(api)
    assert found[record["key"]] == uncounted
    assert untouched["key"] not in found
    await set_status(contest, first, "approved")
    assert (await becomes(api.client, record, "cast"))["refusal"] is None
    assert record["key"] not in await refund_list(api)
    await wait_for_paid_votes(contest, 9)


async def test_purchases_for_a_deleted_participant_and_in_a_deleted_contest_are_to_be_refunded(api: Api) -> None:
    contest = await api.contest()
    for path in (f"/participants/{contest.participants[0]}", f"/contests/{contest.key}"):
        record = await bought(contest, vote=votes_for(contest, 0 if "participants" in path else 1))
        assert (await api.client.delete(path)).status_code == 204
        uncounted = await becomes(api.client, record, "uncounted")
        assert uncounted["refusal"]["code"] == "not_found"

        async def is_listed(key: str = record["key"]) -> bool:
            return key in await refund_list(api)

        await eventually(is_listed)
        assert (await refund(api.client, record))["status"] == "refunded"
        assert not await is_listed()
