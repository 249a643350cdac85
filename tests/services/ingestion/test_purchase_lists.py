"""Lists of purchases over HTTP, page by page."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.purchase_events import PurchaseEvent, PurchaseRecorded, PurchaseRefused
from libs.purchases.encryption import AccountCipher, AccountCiphers, Buyer
from libs.purchases.schemas import parse_purchase
from libs.purchases.service import PurchaseService
from libs.telemetry.metrics import REGISTRY
from libs.web.errors import handle_errors
from services.ingestion.purchase_routes import purchase_router
from tests.support.builders.purchases_log import FoldedPurchases, folded_purchases
from tests.support.clients.voting import code
from tests.support.eventually import eventually

PARTITIONS = 2
SECRET, OTHER = b"s" * 32, b"t" * 32
VOTE = {"contest_key": "c1", "participant_key": "p1", "count": 3}
FORM = {"user_id": "buyer", "type": "vote", "vote": VOTE}


async def secret(account: str) -> bytes:
    return SECRET


class AllPermissions:
    async def authenticate(self, scope: object) -> ApiKey:
        return ApiKey("a1", "k", "", ("purchases:read", "purchases:write"), 0)


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


@asynccontextmanager
async def served(purchases: FoldedPurchases) -> AsyncIterator[httpx.AsyncClient]:
    anything: Any = None
    auth: Any = AllPermissions()
    ciphers = AccountCiphers(secret)
    register = PurchaseService(purchases.topic, purchases.log, purchases.views, ciphers, bounds=anything)
    api = FastAPI()
    handle_errors(api)
    api.include_router(purchase_router(auth, register, anything))
    transport = httpx.ASGITransport(api, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        yield client


def bought(token: str, secret: bytes = SECRET) -> PurchaseRecorded:
    """A purchase with this token; another `secret` than the account's seals its buyer unreadably."""
    recorded = parse_purchase(FORM | {"purchase_token": token}).recorded("a1", AccountCipher("a1", SECRET), 1)
    return replace(recorded, sealed=AccountCipher("a1", secret).seal(Buyer("buyer", token)))


async def appended(purchases: FoldedPurchases, status: str, *events: PurchaseEvent) -> None:
    """Append events, and wait until all their purchases have this status."""
    await purchases.append(*events)

    async def is_folded() -> bool:
        return {await purchases.status(event) for event in events} == {status}

    await eventually(is_folded)


async def test_purchases_that_cannot_be_read_hide_no_others(
    kafka: str, valkey_address: str, namespace: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where nothing else would be on a page, and of a purchase under another secret of the account."""
    events = [bought(f"token{number}", OTHER if number == 4 else SECRET) for number in range(8)]
    refusals = [PurchaseRefused(account="a1", key=one.key, at=1, code="not_found", reason="-") for one in events]
    async with folded_purchases(kafka, valkey_address, namespace, PARTITIONS) as purchases:
        await appended(
            purchases, "refused", *(event for pair in zip(events, refusals, strict=True) for event in pair)
        )
        corrupted = events[:1] + events[2:4] + events[7:]
        for one in corrupted:
            await purchases.corrupt(one)
        readable = {events[at].key for at in (1, 5, 6)}
        async with served(purchases) as client:
            for path in ("/api/users/buyer/purchases", "/operations/purchases/refunds"):
                for limit in (1, 2, 100):
                    keys = await keys_of(client, path, limit)
                    assert (len(keys), set(keys)) == (3, readable)
    for one in (events[4], *corrupted):
        assert f"purchase {one.key} of a1 cannot be read" in caplog.text


async def test_a_purchase_that_cannot_be_read_says_so_where_it_is_asked_for(
    kafka: str, valkey_address: str, namespace: str
) -> None:
    """Its record and its refund, by key and by token; nothing is recorded meanwhile, and the others answer."""
    bad, sealed, good = bought("bad"), bought("sealed", OTHER), bought("good")
    async with folded_purchases(kafka, valkey_address, namespace, PARTITIONS) as purchases:
        await appended(purchases, "recorded", bad, sealed, good)
        await purchases.corrupt(bad)
        before = REGISTRY.get_sample_value("tally_purchases_unreadable_total") or 0
        async with served(purchases) as client:
            answers = [
                await client.get(f"/api/purchases/{bad.key}"),
                await client.get(f"/api/purchases/{sealed.key}"),
                await client.post(f"/operations/purchases/{bad.key}/refund"),
                await client.post("/operations/purchases/refund", json={"purchase_token": "bad"}),
                await client.post("/operations/purchases", json=FORM | {"purchase_token": "bad"}),
            ]
            for answer in answers:
                assert code(answer) == (500, "purchase_unreadable")
                assert answer.json()["key"] in answer.json()["detail"]
                assert "no event" not in answer.text
            assert (await client.get(f"/api/purchases/{good.key}")).status_code == 200
            assert (await client.post(f"/operations/purchases/{good.key}/refund")).json()["status"] == "refunded"
        assert REGISTRY.get_sample_value("tally_purchases_unreadable_total") == before + len(answers)
