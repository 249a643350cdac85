"""Lists of purchases over HTTP, page by page."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from libs.contracts.purchase_events import PurchaseRefused
from libs.purchases.encryption import AccountCipher, AccountCiphers, Buyer
from libs.purchases.schemas import parse_purchase
from libs.purchases.service import PurchaseService
from libs.telemetry.metrics import REGISTRY
from libs.web.errors import handle_errors
from services.ingestion.purchase_routes import purchase_router
from tests.support.eventually import eventually
from tests.support.purchases_log import folded_purchases
from tests.support.voting import code

PARTITIONS = 2
SECRET = b"s" * 32
VOTE = {"contest_key": "c1", "participant_key": "p1", "count": 3}


async def secret(account: str) -> bytes:
    return SECRET


class AllPermissions:
    """Authenticates every request with the permissions to read and write purchases."""

    async def authenticate(self, scope: object) -> Any:
        return SimpleNamespace(account="a1", permissions=frozenset({"purchases:read", "purchases:write"}))


async def keys_of(client: httpx.AsyncClient, path: str, limit: int) -> list[str]:
    """The keys on all pages."""
    keys: list[str] = []
    parameters: dict[str, Any] = {"limit": limit}
    while True:
        answer = await client.get(path, params=parameters)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        keys += [one["key"] for one in page["data"]]
        if not page["has_more"]:
            return keys
        parameters["next"] = page["next"]


async def test_purchases_that_cannot_be_read_hide_no_others(
    kafka: str, valkey_address: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nothing else would be on a page, and of a purchase under another secret of the account."""
    bodies = [{"user_id": "buyer", "purchase_token": f"token{n}", "type": "vote", "vote": VOTE} for n in range(8)]
    async with folded_purchases(kafka, valkey_address, namespace, PARTITIONS) as purchases:
        cipher, another = AccountCipher("a1", SECRET), AccountCipher("a1", b"t" * 32)
        bought = [parse_purchase(body).recorded("a1", cipher, 1) for body in bodies]
        bought[4] = replace(bought[4], sealed=another.seal(Buyer("buyer", "token4")))
        for one in bought:
            refused = PurchaseRefused(account="a1", key=one.key, at=1, code="not_found", reason="No contest.")
            await purchases.append(one, refused)

        async def are_refused() -> bool:
            return {await purchases.status(one) for one in bought} == {"refused"}

        await eventually(are_refused)
        corrupted = bought[:1] + bought[2:4] + bought[7:]
        for one in corrupted:
            await purchases.corrupt(one)
        auth: Any = AllPermissions()
        bounds: Any = None
        api = FastAPI()
        register = PurchaseService(purchases.topic, purchases.log, purchases.views, AccountCiphers(secret), bounds)
        requests: Any = None
        api.include_router(purchase_router(auth, register, requests))
        readable = {bought[at].key for at in (1, 5, 6)}
        transport = httpx.ASGITransport(api)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            for path in ("/api/users/buyer/purchases", "/operations/purchases/refunds"):
                for limit in (1, 2, 100):
                    keys = await keys_of(client, path, limit)
                    assert (len(keys), set(keys)) == (3, readable)
    for one in (bought[4], *corrupted):
        assert f"purchase {one.key} of a1 cannot be read" in caplog.text


async def test_a_purchase_that_cannot_be_read_says_so_where_it_is_asked_for(
    kafka: str, valkey_address: str, namespace: str
) -> None:
    """Its record and its refund, by key and by token; nothing is recorded meanwhile, and the others answer."""
    body = {"user_id": "buyer", "type": "vote", "vote": VOTE}
    async with folded_purchases(kafka, valkey_address, namespace, PARTITIONS) as purchases:
        cipher = AccountCipher("a1", SECRET)
        forms = [body | {"purchase_token": token} for token in ("bad", "sealed", "good")]
        bad, sealed, good = (parse_purchase(form).recorded("a1", cipher, 1) for form in forms)
        sealed = replace(sealed, sealed=AccountCipher("a1", b"t" * 32).seal(Buyer("buyer", "sealed")))
        await purchases.append(bad, sealed, good)

        async def are_recorded() -> bool:
            return {await purchases.status(one) for one in (bad, sealed, good)} == {"recorded"}

        await eventually(are_recorded)
        await purchases.corrupt(bad)
        auth: Any = AllPermissions()
        requests: Any = None
        bounds: Any = None
        api = FastAPI()
        handle_errors(api)
        register = PurchaseService(purchases.topic, purchases.log, purchases.views, AccountCiphers(secret), bounds)
        api.include_router(purchase_router(auth, register, requests))
        before = REGISTRY.get_sample_value("tally_purchases_unreadable_total") or 0
        transport = httpx.ASGITransport(api, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            answers = [
                await client.get(f"/api/purchases/{bad.key}"),
                await client.get(f"/api/purchases/{sealed.key}"),
                await client.post(f"/operations/purchases/{bad.key}/refund"),
                await client.post("/operations/purchases/refund", json={"purchase_token": "bad"}),
                await client.post("/operations/purchases", json=forms[0]),
            ]
            for answer in answers:
                assert code(answer) == (500, "purchase_unreadable")
                assert answer.json()["key"] in answer.json()["detail"]
                assert "no event" not in answer.text
            assert (await client.get(f"/api/purchases/{good.key}")).status_code == 200
            assert (await client.post(f"/operations/purchases/{good.key}/refund")).json()["status"] == "refunded"
        assert REGISTRY.get_sample_value("tally_purchases_unreadable_total") == before + len(answers)
