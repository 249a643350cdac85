"""API keys by their client: shown once, listed without their texts, never more than the calling key has."""

import asyncio
from typing import Any

import httpx
import pytest

from libs.catalogue.api_keys import PERMISSIONS, issue_key
from libs.catalogue.commands import WriteRequest
from libs.catalogue.errors import UnknownKey
from libs.contracts.catalogue_events import KeyAncestor, KeyRules
from libs.tally.time_conversion import microseconds, parse_timestamp
from tests.services.catalogue.conftest import Place
from tests.support.clients.voting import code
from tests.support.eventually import eventually

MEMBERS = {"key_id", "name", "permissions", "expires", "networks", "rate", "parent", "created", "last_used"}
LATER, LATEST = "2098-01-01T00:00:00.000000Z", "2099-01-01T00:00:00.000000Z"


async def made(client: httpx.AsyncClient, headers: dict[str, str] | None = None, **body: Any) -> dict[str, Any]:
    answer = await client.post("/keys", json={"permissions": ["content:read"]} | body, headers=headers)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def refusal(client: httpx.AsyncClient, **body: Any) -> tuple[int, str, str]:
    """Status and code of a refused key, and the member or permission that is wrong."""
    answer = (await client.post("/keys", json={"permissions": ["content:read"]} | body)).json()
    return answer["status"], answer["code"], answer.get("permission") or answer["errors"][0]["pointer"]


def bearer(key: dict[str, Any]) -> dict[str, str]:
    return {"authorization": f"Bearer {key['api_key']}"}


async def status_with(client: httpx.AsyncClient, key: dict[str, Any]) -> int:
    return (await client.get("/contests", headers=bearer(key))).status_code


async def are_refused(client: httpx.AsyncClient, *keys: dict[str, Any]) -> bool:
    return {await status_with(client, key) for key in keys} == {401}


async def test_a_key_is_made_shown_once_used_and_revoked(client: httpx.AsyncClient) -> None:
    answer = await client.post("/keys", json={"name": "Backend", "permissions": ["content:read"]})
    key = answer.json()
    assert (answer.status_code, answer.headers["location"]) == (201, f"/keys/{key['key_id']}")
    assert answer.headers["cache-control"] == "no-store"
    assert set(key) == MEMBERS | {"api_key"}
    assert (key["name"], key["permissions"], key["expires"]) == ("Backend", ["content:read"], None)
    assert await status_with(client, key) == 200
    read = await client.get(answer.headers["location"])
    assert read.json() == {name: key[name] for name in MEMBERS}
    listed = (await client.get("/keys")).json()
    assert listed["data"][0] == read.json()
    assert key["api_key"].split("_", 2)[2] not in str(listed)
    assert (await client.delete(answer.headers["location"])).status_code == 204
    await eventually(lambda: are_refused(client, key))
    assert code(await client.delete(answer.headers["location"])) == (404, "not_found")
    assert code(await client.get(answer.headers["location"])) == (404, "not_found")


async def test_every_route_needs_the_permission(place: Place, client: httpx.AsyncClient) -> None:
    others = [permission for permission in PERMISSIONS if permission != "keys:manage"]
    async with (
        place.client(*others, account=client.headers["x-account"]) as client,
        place.anonymous() as anonymous,
    ):
        for method, path in (("GET", "/keys"), ("POST", "/keys"), ("GET", "/keys/k"), ("DELETE", "/keys/k")):
            body = {"permissions": ["content:read"]} if method == "POST" else None
            refused = await client.request(method, path, json=body)
            assert (code(refused), refused.json()["permission"]) == ((403, "forbidden"), "keys:manage")
            assert code(await anonymous.request(method, path, json=body)) == (401, "unauthorized")


async def test_nobody_hands_out_a_permission_that_he_lacks(place: Place, client: httpx.AsyncClient) -> None:
    account = client.headers["x-account"]
    own = ["keys:manage", "content:read"]
    async with place.client(*own, account=account) as manager:
        more = {"permissions": ["content:read", "votes:write"]}
        assert await refusal(manager, **more) == (403, "forbidden", "votes:write")
        assert set((await made(manager, permissions=own))["permissions"]) == set(own)
        wrong = (422, "validation_failed", "/permissions")
        assert await refusal(manager, permissions=["everything"]) == wrong
        assert code(await manager.post("/keys", json={})) == (422, "validation_failed")


async def test_nobody_hands_out_more_time_networks_or_rate_than_he_has(
    place: Place, client: httpx.AsyncClient
) -> None:
    writer, account = place.environments["production"].writer, "narrow"
    rules = KeyRules("", microseconds(parse_timestamp(LATER)), ("127.0.0.0/8", "2001:db8::/32"), 7)
    issued = await issue_key(writer, account, PERMISSIONS, rules)
    async with place.anonymous() as limited:
        limited.headers["authorization"] = f"Bearer {issued.api_key}"
        inherited = await made(limited)
        assert (inherited["expires"], inherited["rate"]) == (LATER, 7)
        assert inherited["networks"] == ["127.0.0.0/8", "2001:db8::/32"]
        narrower: dict[str, Any] = {"expires": "2097-01-01T00:00:00Z", "networks": ["127.0.0.1/32"], "rate": 1}
        assert (await made(limited, **narrower))["networks"] == ["127.0.0.1/32"]
        wider: list[tuple[str, Any]] = [
            ("expires", LATEST),
            ("networks", ["127.0.0.0/7"]),
            ("networks", ["127.0.0.0/8", "192.0.2.0/24"]),
            ("networks", ["2001:db9::/32"]),
            ("rate", 8),
            ("rate", 0),
        ]
        for name, value in wider:
            assert await refusal(limited, **{name: value}) == (422, "validation_failed", f"/{name}"), value
    assert (await made(client, rate=1))["rate"] == 1
    more_than_the_deployment_s = 1_000_000
    assert await refusal(client, rate=more_than_the_deployment_s) == (422, "validation_failed", "/rate")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("permissions", None),
        ("permissions", []),
        ("name", "a\nb"),
        ("name", "x" * 101),
        ("expires", "2020-01-01T00:00:00Z"),
        ("networks", ["everywhere"]),
        ("rate", -1),
        ("api_key", "tk_"),
    ],
)
async def test_a_key_that_is_none_is_refused(client: httpx.AsyncClient, name: str, value: Any) -> None:
    assert await refusal(client, **{name: value}) == (422, "validation_failed", f"/{name}")


async def test_a_repeated_request_makes_one_key_and_shows_it_once(client: httpx.AsyncClient) -> None:
    body, once = {"name": "once", "permissions": ["content:read"]}, {"Idempotency-Key": "k1"}
    answers = await asyncio.gather(*(client.post("/keys", json=body, headers=once) for _ in range(3)))
    again = await client.post("/keys", json=body, headers=once)
    assert {answer.status_code for answer in [*answers, again]} == {201}
    assert len({answer.json()["key_id"] for answer in [*answers, again]}) == 1
    [shown] = [answer.json() for answer in answers if answer.json()["api_key"]]
    assert (again.json()["api_key"], again.headers["idempotent-replayed"]) == (None, "true")
    assert await status_with(client, shown) == 200
    other = await client.post("/keys", json=body | {"name": "other"}, headers=once)
    assert code(other) == (422, "idempotency_key_reused")
    listed = (await client.get("/keys")).json()["data"]
    assert [key["name"] for key in listed].count("once") == 1


async def test_a_key_id_does_not_follow_from_the_request(place: Place) -> None:
    writer = place.environments["production"].writer
    request = WriteRequest.repeatable("acme-ids", "POST", "/keys", "k1", b"{}")
    first = await issue_key(writer, "acme-ids", ["content:read"], request=request)
    again = await issue_key(writer, "acme-ids", ["content:read"], request=request)
    assert first.key_id != again.key_id


async def is_live(client: httpx.AsyncClient, key: dict[str, Any]) -> bool:
    return (await client.get(f"/keys/{key['key_id']}")).status_code == 200


async def family(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    """A manager, a manager made with it, and a key made with that one."""
    manager = await made(client, permissions=["keys:manage", "content:read"])
    child = await made(client, permissions=["keys:manage", "content:read"], headers=bearer(manager))
    return [manager, child, await made(client, headers=bearer(child))]


async def test_keys_end_with_the_one_that_they_descend_from(client: httpx.AsyncClient) -> None:
    manager, child, grandchild = await family(client)
    other = await made(client)
    parents = {key["key_id"]: key["parent"] for key in (await client.get("/keys")).json()["data"]}
    assert parents[child["key_id"]] == child["parent"] == manager["key_id"]
    assert parents[grandchild["key_id"]] == grandchild["parent"] == child["key_id"]
    assert (await client.delete(f"/keys/{manager['key_id']}")).status_code == 204
    assert not any([await is_live(client, key) for key in (manager, child, grandchild)])
    assert await is_live(client, other)
    await eventually(lambda: are_refused(client, manager, child, grandchild))


async def test_descendants_can_be_kept_and_still_belong_to_their_ancestor(client: httpx.AsyncClient) -> None:
    manager, child, grandchild = await family(client)
    wrong = await client.delete(f"/keys/{manager['key_id']}", params={"descendants": "ask"})
    assert (code(wrong), await is_live(client, manager)) == ((422, "validation_failed"), True)
    kept = await client.delete(f"/keys/{manager['key_id']}", params={"descendants": "keep"})
    assert kept.status_code == 204
    assert [await is_live(client, key) for key in (manager, child, grandchild)] == [False, True, True]
    read = (await client.get(f"/keys/{child['key_id']}")).json()
    assert read["parent"] == manager["key_id"]
    assert (await client.delete(f"/keys/{child['key_id']}")).status_code == 204
    assert not await is_live(client, grandchild)


async def test_a_revoked_key_makes_no_other(place: Place) -> None:
    """As if the request had passed its authentication just before the revocation."""
    writer, account = place.environments["production"].writer, "raced"
    elsewhere = await issue_key(writer, "another", ["content:read"])
    for parent in ("0123456789abcdef", elsewhere.key_id):
        with pytest.raises(UnknownKey):
            await issue_key(writer, account, ["content:read"], ancestors=(KeyAncestor(parent, None),))


async def test_a_key_descends_from_at_most_four_others(client: httpx.AsyncClient) -> None:
    key = await made(client, permissions=["keys:manage"])
    for _ in range(3):
        key = await made(client, permissions=["keys:manage"], headers=bearer(key))
    refused = await client.post("/keys", json={"permissions": ["keys:manage"]}, headers=bearer(key))
    assert code(refused) == (422, "validation_failed")


async def test_a_manager_revokes_only_what_it_could_have_made(place: Place, client: httpx.AsyncClient) -> None:
    writer, account = place.environments["production"].writer, client.headers["x-account"]
    rules = KeyRules("", microseconds(parse_timestamp(LATER)), ("127.0.0.0/8",), 7)
    weak = await issue_key(writer, account, ["keys:manage", "content:read"], rules)
    headers = {"authorization": f"Bearer {weak.api_key}"}
    stronger = [
        await made(client, permissions=["content:read", "votes:write"]),
        await made(client),
        await made(client, expires=LATEST, networks=["127.0.0.0/8"], rate=7),
        await made(client, expires=LATER, networks=["126.0.0.0/7"], rate=7),
        await made(client, expires=LATER, networks=["127.0.0.0/8"], rate=8),
    ]
    for key in stronger:
        assert code(await client.delete(f"/keys/{key['key_id']}", headers=headers)) == (403, "forbidden")
        assert await is_live(client, key)
    weaker = await made(client, expires=LATER, networks=["127.0.0.1/32"], rate=7)
    assert (await client.delete(f"/keys/{weaker['key_id']}", headers=headers)).status_code == 204
    assert (await client.delete(f"/keys/{weak.key_id}", headers=headers)).status_code == 204
