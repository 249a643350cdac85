"""Every row of the specification's endpoint table: it exists, requires a key, and works as specified."""

import re
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.e2e.current_api.specification import ENDPOINTS, FIELDS, READ_ONLY
from tests.support.clients.purchases_over_http import purchase, send
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, code, new_id

ROWS = [(method, path) for methods, path in ENDPOINTS for method in methods.split(", ")]
OPERATIONS = [(method, path) for method, path in ROWS if path != "<upload_url>"]
ADDRESSES = sorted({path for _, path in OPERATIONS})
ALL = {"GET", "POST", "PUT", "PATCH", "DELETE"}
OURS = {"/images/<image_key>": {"PATCH"}}
"""Methods that this service adds to the table's."""


def filled(path: str) -> str:
    return re.sub("<.*?>", "x", path)


@pytest.fixture(scope="module")
async def voter(stack: Supervisor) -> Any:
    """A key with none of the permissions that the table needs."""
    async with await client_with(stack, stack.stack["account"], "votes:write") as client:
        yield client


async def test_each_operation_needs_a_key_that_may(api: Api, voter: httpx.AsyncClient) -> None:
    special = {"/api/": "purchases:read", "vote_updates": "results:read"}
    for method, path in OPERATIONS:
        anonymous = await api.client.request(method, filled(path), headers={"Authorization": ""})
        assert code(anonymous) == (401, "unauthorized"), (method, path)
        assert anonymous.headers["www-authenticate"] == "Bearer"
        refused = await voter.request(method, filled(path))
        assert code(refused) == (403, "forbidden"), (method, path)
        permission = "content:read" if method == "GET" else "content:write"
        expected = next((name for part, name in special.items() if part in path), permission)
        assert refused.json()["permission"] == expected, (method, path)


async def test_each_address_takes_the_methods_of_the_table_alone(api: Api) -> None:
    for path in (path for path in ADDRESSES if "?" not in path):
        taken = {method for method, other in OPERATIONS if other == path} | OURS.get(path, set())
        for method in sorted(ALL - taken):
            refused = await api.client.request(method, filled(path))
            assert code(refused) == (405, "method_not_allowed"), (method, path)
            assert taken <= set(refused.headers["allow"].split(", ")) <= taken | {"HEAD"}, path


@pytest.mark.parametrize("resource", FIELDS)
async def test_a_record_from_its_making_to_its_end(records: Records, resource: str) -> None:
    body, address, again = records.body(resource, {}), records.address(resource), {"Idempotency-Key": new_id()}
    made, repeated = [await records.client.post(address, json=body, headers=again) for _ in range(2)]
    record, where = made.json(), made.headers["location"]
    assert (made.status_code, where) == (201, f"/{resource}/{record['key']}")
    assert (repeated.status_code, repeated.json(), repeated.headers["idempotent-replayed"]) == (
        201,
        record,
        "true",
    )
    other = await records.client.post(address, json=body | {"custom_data": {"x": 1}}, headers=again)
    assert code(other) == (422, "idempotency_key_reused")
    assert record["created"] == record["updated"]
    read = await records.client.get(where)
    assert (read.status_code, read.json(), read.headers["etag"]) == (200, record, made.headers["etag"])
    unchanged = await records.client.get(where, headers={"If-None-Match": read.headers["etag"]})
    assert (unchanged.status_code, unchanged.content) == (304, b"")
    patch = {"description": "x"} if resource == "files" else {"title": "x"}
    changed = await records.client.patch(where, json=patch, headers={"If-Match": read.headers["etag"]})
    assert (changed.status_code, changed.json()["updated"] > record["updated"]) == (200, True)
    late = await records.client.patch(where, json=patch, headers={"If-Match": read.headers["etag"]})
    assert code(late) == (412, "version_conflict")
    gone = await records.client.delete(where)
    assert (gone.status_code, gone.content) == (204, b"")
    for method in ("GET", "PATCH", "DELETE"):
        assert code(await records.client.request(method, where, json={})) == (404, "not_found")


async def test_a_picture_s_record_has_the_fields_of_the_table(records: Records) -> None:
    image = await records.read("images", records.keys["images"][0])
    assert set(_paths(image)) >= set(READ_ONLY["images"])


async def test_a_purchase_has_the_fields_of_the_table(api: Api) -> None:
    user, time = new_id(), "2036-05-01T18:00:00.000000Z"
    subscription = {"is_auto_renew": True, "grace_end": time, "expiration": time, "access": True}
    sent = purchase(await api.contest(1), user=user, subscription=subscription)
    record = (await api.client.get(f"/api/purchases/{(await send(api.client, sent))['key']}")).json()
    assert set(_paths(record)) >= set(READ_ONLY["purchases"])
    assert record | sent == record | {"user_id": user}
    listed = (await api.client.get(f"/api/users/{user}/purchases")).json()["data"]
    assert [one["key"] for one in listed] == [record["key"]]


async def test_a_vote_count_has_the_fields_of_the_table(api: Api) -> None:
    contest = await api.contest(1)
    counts = await contest.counts()
    counts["participants"] = list(counts["participants"].values())
    assert set(_paths(counts)) == set(READ_ONLY["vote_counts"])


def _paths(value: Any, prefix: str = "") -> Iterator[str]:
    """The pointers to all that is neither object nor list, or is empty."""
    if isinstance(value, dict) and value:
        for name, item in value.items():
            yield from _paths(item, f"{prefix}{name}/")
    elif isinstance(value, list) and value:
        yield from _paths(value[0], f"{prefix}*/")
    else:
        yield prefix.removesuffix("/")
