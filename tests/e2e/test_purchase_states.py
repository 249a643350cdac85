"""Later states of a purchase: renewals, cancellations, expiries and refunds, in whichever order they arrive."""

from typing import Any

import httpx
import pytest

from tests.support.clients.purchases_over_http import PURCHASES, becomes, purchase, send, wait_for_paid_votes
from tests.support.clients.voting import Api, code, hours_from_now, moment, new_id


def in_hours(hours: float) -> str:
    """Return a time as the API writes it."""
    return moment(hours_from_now(hours)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def a_subscription(state: dict[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """Return the body of a report; `state` is the subscription's."""
    body = {"user_id": new_id(), "purchase_token": new_id(), "type": "subscription", "shop_key": "s"}
    return body | ({} if state is None else {"subscription": state}) | changes


async def report(client: httpx.AsyncClient, body: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the record after the report, and whether it changed anything."""
    answer = await client.post(PURCHASES, json=body)
    assert answer.status_code == 202, answer.text
    return answer.json(), "Idempotent-Replayed" not in answer.headers


async def read(client: httpx.AsyncClient, record: dict[str, Any]) -> dict[str, Any]:
    return (await client.get(f"/api/purchases/{record['key']}")).json()


async def test_a_renewal_a_cancellation_and_an_expiry_come_in_after_one_another(api: Api) -> None:
    body = a_subscription({"is_auto_renew": True, "expiration": in_hours(1), "access": True})
    first, _ = await report(api.client, body)
    for state, access in [
        ({"is_auto_renew": True, "expiration": in_hours(48), "access": True}, True),
        ({"is_auto_renew": False, "expiration": in_hours(48), "access": True}, True),
        ({"is_auto_renew": False, "expiration": in_hours(-1), "access": True}, False),
    ]:
        record, changed = await report(api.client, body | {"subscription": state})
        assert changed
        assert record["subscription"]["is_auto_renew"] is state["is_auto_renew"]
        assert record["subscription"]["access"] is access
        assert (record["key"], record["created"]) == (first["key"], first["created"])
        assert record["updated"] > first["updated"]
        assert await read(api.client, record) == record
        again, changed = await report(api.client, body | {"subscription": state})
        assert (again, changed) == (record, False)


async def test_the_platforms_time_orders_the_states_and_late_ones_change_nothing(api: Api) -> None:
    def at(hours: float, **state: Any) -> dict[str, Any]:
        return body | {"reported_at": in_hours(hours), "subscription": state}

    body = a_subscription()
    await report(api.client, at(-5, is_auto_renew=True))
    latest = at(-1, is_auto_renew=False)
    record, changed = await report(api.client, latest)
    assert changed
    assert record["reported_at"] == latest["reported_at"]
    for late in (at(-3, access=True), at(-5, is_auto_renew=True), latest, at(-9, expiration=in_hours(9))):
        assert await report(api.client, late) == (record, False)
    other = latest | {"subscription": {"is_auto_renew": True}}
    assert code(await api.client.post(PURCHASES, json=other)) == (422, "idempotency_key_reused")
    assert await read(api.client, record) == record
    assert (await report(api.client, at(0, is_auto_renew=True)))[1]


async def test_access_lasts_through_the_grace_period(api: Api) -> None:
    def state(grace_end: float | None, expiration: float | None, access: bool | None) -> dict[str, Any]:
        times = {"grace_end": grace_end, "expiration": expiration}
        return {name: None if at is None else in_hours(at) for name, at in times.items()} | {"access": access}

    body = a_subscription()
    for given, shown in [
        (state(1, -1, True), True),
        (state(-1, 1, True), False),
        (state(None, 1, True), True),
        (state(None, -1, None), False),
        (state(None, None, True), True),
        (state(None, 1, False), False),
        (state(None, 1, None), None),
    ]:
        record, _ = await report(api.client, body | {"subscription": given})
        assert record["subscription"]["access"] is shown, given


async def test_an_expiration_alone_replaces_only_that_member(api: Api) -> None:
    body = a_subscription({"is_auto_renew": True, "expiration": in_hours(1), "access": True})
    await report(api.client, body)
    later, unstated = in_hours(48), {name: body[name] for name in body if name != "subscription"}
    record, changed = await report(api.client, unstated | {"expiration": later})
    expected = {"is_auto_renew": True, "grace_end": None, "expiration": later, "access": True}
    assert (record["subscription"], changed) == (expected, True)
    assert await report(api.client, unstated) == (record, False)


async def test_a_reported_refund_takes_back_the_votes_and_is_final(api: Api) -> None:
    contest = await api.contest()
    body = purchase(contest, 7)
    await becomes(api.client, await send(api.client, body), "cast")
    await wait_for_paid_votes(contest, 7)
    record, changed = await report(api.client, body | {"refunded": True})
    assert (record["status"], record["refunded"], changed) == ("refunded", True, True)
    await wait_for_paid_votes(contest, 0)
    for again in (body | {"refunded": True}, body | {"refunded": False}, body):
        assert await report(api.client, again) == (record, False)


@pytest.mark.parametrize("when", ["1969-12-31T23:59:59Z", in_hours(99)], ids=["before 1970", "in days"])
async def test_a_report_from_the_future_would_outrank_all_others_and_is_refused(api: Api, when: str) -> None:
    answer = await api.client.post(PURCHASES, json=a_subscription({"access": True}, reported_at=when))
    assert code(answer) == (422, "validation_failed")
    assert [error["pointer"] for error in answer.json()["errors"]] == ["/reported_at"]
