"""Surveys have keys chosen by the account."""

import uuid

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.records import Records
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import code


def an_address() -> str:
    return f"/surveys/{uuid.uuid4().hex}"


async def test_a_post_creates_then_replaces(records: Records) -> None:
    where = an_address()
    made = await records.client.post(where, json={"title": "One", "tags": ["a"]})
    survey = made.json()
    assert (made.status_code, made.headers["location"]) == (201, where)
    assert where.endswith(survey["key"])
    replaced = await records.client.post(f"{where}/", json={"title": "Two"})
    assert (replaced.status_code, replaced.json()["title"], replaced.json()["tags"]) == (200, "Two", [])
    assert replaced.json()["created"] == survey["created"] < replaced.json()["updated"]
    assert replaced.headers["etag"] != made.headers["etag"]
    same = await records.client.post(where, json={"title": "Two"})
    assert same.status_code == 200
    assert (await records.client.get(where)).json() == same.json()
    assert (await records.client.delete(where)).status_code == 204
    assert (await records.client.post(where, json={})).status_code == 201


async def test_what_is_no_key_is_refused(records: Records) -> None:
    for key in ("a b", "é", "a:b", "x" * 131, "%2E", "%2E%2E"):
        assert code(await records.client.post(f"/surveys/{key}", json={})) == (422, "validation_failed"), key


async def test_a_wrong_body_is_refused_and_changes_nothing(records: Records) -> None:
    where, wrong = an_address(), {"image": {"key": "nothing"}}
    assert code(await records.client.post(where, json=wrong)) == (422, "validation_failed")
    assert (await records.client.get(where)).status_code == 404
    made = await records.client.post(where, json={})
    assert code(await records.client.post(where, json=wrong)) == (422, "validation_failed")
    assert (await records.client.get(where)).json() == made.json()


async def test_two_accounts_have_surveys_of_the_same_key(records: Records, stack: Supervisor) -> None:
    where = an_address()
    mine = (await records.client.post(where, json={"title": "Mine"})).json()
    async with await client_with(stack, uuid.uuid4().hex, "content:read", "content:write") as other:
        assert (await other.get(where)).status_code == 404
        theirs = await other.post(where, json={"title": "Theirs"})
        assert theirs.status_code == 201
        assert (await records.client.get(where)).json() == mine
        assert (await records.client.delete(where)).status_code == 204
        assert (await other.get(where)).json() == theirs.json()
        assert (await other.patch(where, json={"title": "Still"})).status_code == 200
        assert (await other.delete(where)).status_code == 204
