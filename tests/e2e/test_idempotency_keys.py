"""`Idempotency-Key` of naturally idempotent requests: rejected with another body."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest

from tests.support.clients.purchases_over_http import PURCHASES, purchase, send
from tests.support.clients.sources import a_source
from tests.support.clients.voting import Api, code, new_id

Prepared = tuple[str, dict[str, Any], dict[str, Any]]
"""A path, a body, and another one that would be taken at the same path."""


async def purchases(api: Api) -> Prepared:
    contest = await api.contest(1)
    return PURCHASES, purchase(contest), purchase(contest)


async def refunds(api: Api) -> Prepared:
    return f"{PURCHASES}/refund", {"purchase_token": new_id()}, {"purchase_token": new_id()}


async def reports(api: Api) -> Prepared:
    source = await a_source(api, "A", "B")
    one, other = ({"report_id": name, "counts": [{"mapped_id": "A", "count": 3}]} for name in ("one", "other"))
    return f"{source.path}/counts", one, other


@pytest.mark.parametrize("prepare", [purchases, refunds, reports])
@pytest.mark.secured
async def test_a_key_stands_for_one_request(api: Api, prepare: Callable[[Api], Awaitable[Prepared]]) -> None:
    path, body, other = await prepare(api)

    async def post(body: dict[str, Any], key: str) -> httpx.Response:
        return await api.client.post(path, json=body, headers={"Idempotency-Key": key})

    key = new_id()
    first, again, reused = await post(body, key), await post(body, key), await post(other, key)
    assert (first.status_code, first.headers.get("idempotent-replayed")) == (202, None)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
    assert code(reused) == (422, "idempotency_key_reused")
    assert (await post(other, new_id())).status_code == 202
    assert code(await post(body, "no key")) == (422, "validation_failed")


async def test_a_key_of_one_address_says_nothing_at_another(api: Api) -> None:
    contest, key = await api.contest(1), {"Idempotency-Key": new_id()}
    for _ in range(2):
        record = await send(api.client, purchase(contest))
        refunded = await api.client.post(f"{PURCHASES}/{record['key']}/refund", headers=key)
        assert (refunded.status_code, refunded.headers.get("idempotent-replayed")) == (202, None)
    again = await api.client.post(f"{PURCHASES}/{record['key']}/refund", headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (202, "true")
