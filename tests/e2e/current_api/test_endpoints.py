"""Every row of the specification's endpoint table: it exists, requires a key, and works as specified."""

import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.endpoints import ENDPOINTS
from tests.e2e.current_api.records import Records
from tests.e2e.current_api.specification import FIELDS, READ_ONLY
from tests.support.http_clients import http_client
from tests.support.stack_keys import client_with
from tests.support.voting import Api, code

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
    made = await records.create(resource, records.body(resource, {}))
    record, where = made.json(), made.headers["location"]
    assert (made.status_code, where) == (201, f"/{resource}/{record['key']}")
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


@pytest.mark.parametrize("resource", FIELDS)
async def test_a_post_sent_again_makes_one_record(records: Records, resource: str) -> None:
    body, headers = records.body(resource, {}), {"Idempotency-Key": uuid.uuid4().hex}
    where = {
        "surveys": f"/surveys/{uuid.uuid4().hex}",
        "timeslots": f"/conventions/{records.keys['conventions'][0]}/timeslots",
    }.get(resource, f"/{resource}")
    first, again = [await records.client.post(where, json=body, headers=headers) for _ in range(2)]
    assert (again.status_code, again.json(), again.headers["idempotent-replayed"]) == (201, first.json(), "true")
    other = await records.client.post(where, json=body | {"custom_data": {"x": 1}}, headers=headers)
    assert code(other) == (422, "idempotency_key_reused")


async def test_a_file_s_bytes_are_handled_at_its_upload_url(records: Records) -> None:
    """By every client that has the address: no key is sent."""
    address = (await records.made("files", records.body("files", {})))["upload_url"]
    async with http_client(base_url=records.client.base_url) as anonymous:
        for method, path in ROWS:
            if path == "<upload_url>":
                body = b"some bytes" if method == "PUT" else None
                answer = await anonymous.request(method, address, content=body)
                assert answer.is_success, f"{method}: {answer.text}"
                assert (answer.content == b"some bytes") == (method == "GET")
        assert (await anonymous.get(address)).status_code == 404


async def test_a_picture_s_record_has_the_fields_of_the_table(records: Records) -> None:
    image = await records.read("images", records.keys["images"][0])
    assert set(_paths(image)) >= set(READ_ONLY["images"])


async def test_a_purchase_has_the_fields_of_the_table(api: Api) -> None:
    contest, token = await api.contest(1), uuid.uuid4().hex
    vote = {"contest_key": contest.key, "participant_key": contest.participants[0], "count": 3}
    time = "2036-05-01T18:00:00.000000Z"
    sent = {
        "user_id": f"u{token}",
        "package_key": "ten",
        "shop_key": "votes",
        "price": 199,
        "purchase_platform": "google_play",
        "purchase_token": token,
        "type": "vote",
        "subscription": {"is_auto_renew": True, "grace_end": time, "expiration": time, "access": True},
        "vote": vote,
    }
    reported = await api.client.post("/operations/purchases", json=sent)
    assert reported.status_code == 202, reported.text
    purchase = (await api.client.get(f"/api/purchases/{reported.json()['key']}")).json()
    assert set(_paths(purchase)) >= set(READ_ONLY["purchases"])
    assert {name: purchase[name] for name in sent if name != "user_id"} == {
        name: value for name, value in sent.items() if name != "user_id"
    }
    listed = (await api.client.get(f"/api/users/u{token}/purchases")).json()["data"]
    assert [one["key"] for one in listed] == [purchase["key"]]


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
