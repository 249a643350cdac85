"""From payment platform to votes: one purchase is one set of paid votes, despite any repetition."""

import asyncio
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.purchases_over_http import PURCHASES, becomes, paid, purchase, refund, send, wait_for_paid_votes
from tests.support.stack_keys import client_with
from tests.support.voting import Api, Contest, code, new_id, running


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
    await becomes(api.client, await send(api.client, purchase(contest, 50)), "cast")
    over = await becomes(api.client, await send(api.client, purchase(contest, 50)), "refused")
    assert over["refusal"]["code"] == "contest_limit_reached"
    assert "70" in over["refusal"]["reason"]
    await becomes(api.client, await send(api.client, purchase(contest, 20)), "cast")
    await becomes(api.client, await send(api.client, purchase(contest, 50, user="another")), "cast")
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
    record = await becomes(api.client, await send(api.client, purchase(await make(api))), "refused")
    assert record["refusal"]["code"] == refusal
    assert record["refusal"]["reason"]

    async def listed() -> dict[str, Any]:
        answer = await api.client.get(f"{PURCHASES}/refunds", params={"limit": 100})
        assert answer.status_code == 200
        return {one["key"]: one for one in answer.json()["data"]}

    assert (await listed())[record["key"]] == record
    assert (await refund(api.client, record))["status"] == "refunded"
    assert record["key"] not in await listed()


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_refund_takes_back_the_votes_and_may_be_repeated(api: Api) -> None:
    contest = await api.contest(paid={"max_contest": 50, "max_participant": -1})
    record = await becomes(api.client, await send(api.client, purchase(contest)), "cast")
    await wait_for_paid_votes(contest, 50)
    first = await refund(api.client, record)
    assert first == await refund(api.client, record) == await becomes(api.client, record, "refunded")
    by_token = await api.client.post(f"{PURCHASES}/refund", json={"purchase_token": record["purchase_token"]})
    assert (by_token.status_code, by_token.json()) == (202, first)
    await wait_for_paid_votes(contest, 0)
    await becomes(api.client, await send(api.client, purchase(contest)), "cast")
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
    await becomes(api.client, await send(api.client, purchase(contest, 7)), "cast")
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
