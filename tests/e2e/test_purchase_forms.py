"""Anonymous buyers, and packages that bound the votes of their purchases."""

from typing import Any

import pytest

from tests.support.purchases_over_http import PURCHASES, becomes, paid, purchase, refund, send, wait_for_paid_votes
from tests.support.voting import Api, Contest, code, new_id


def anonymous(contest: Contest, count: int = 7, **changes: Any) -> dict[str, Any]:
    body = purchase(contest, count, **changes) | {"anonymous_id": f"device-{new_id()}"}
    del body["user_id"]
    return body


async def test_an_anonymous_buyers_votes_are_an_anonymous_voters(api: Api) -> None:
    contest = await api.contest(paid={"is_anonymous": True, "max_contest": 10, "max_participant": -1})
    body = anonymous(contest)
    record = await becomes(api.client, await send(api.client, body), "cast")
    await wait_for_paid_votes(contest, 7)
    counts = await contest.counts()
    assert (counts["anonymous_voter_count"], counts["unique_voter_count"]) == (1, 1)
    over = body | {"purchase_token": new_id()}
    refused = await becomes(api.client, await send(api.client, over), "refused")
    assert refused["refusal"]["code"] == "contest_limit_reached"
    signed_in = purchase(contest, 7, user=body["anonymous_id"])
    await becomes(api.client, await send(api.client, signed_in), "cast")
    await wait_for_paid_votes(contest, 14)
    assert (await api.client.get(f"/api/users/{body['anonymous_id']}/purchases")).json()["data"] != [record]
    assert (await refund(api.client, record))["status"] == "refunded"
    await wait_for_paid_votes(contest, 7)


@pytest.mark.parametrize("resource", ["shops", "master_shops"])
async def test_a_package_bounds_the_votes_of_its_purchases(api: Api, resource: str) -> None:
    contest = await api.contest()
    packages = [{"title": "ten", "vote_count": 10}, {"title": "any"}]
    shop = (await api.client.post(f"/{resource}", json={"title": "Shop", "packages": packages})).json()
    ten, unbound = (package["key"] for package in shop["packages"])
    for of_shop in ({"shop_key": shop["key"]}, {"shop_key": None}):
        over = purchase(contest, 11, package_key=ten) | of_shop
        answer = await api.client.post(PURCHASES, json=over)
        assert code(answer) == (422, "validation_failed")
        [error] = answer.json()["errors"]
        assert error["pointer"] == "/vote/count"
        assert "10 votes" in error["message"]
        await becomes(api.client, await send(api.client, purchase(contest, 10, package_key=ten) | of_shop), "cast")
    for package in (unbound, "unknown"):
        body = purchase(contest, 11, package_key=package, shop_key=shop["key"])
        await becomes(api.client, await send(api.client, body), "cast")
    assert await paid(contest) == 42
