"""References to records, which must exist and block deletion. The rows of the table list them."""

from typing import Any

import pytest

from tests.e2e.current_api.records import Records, leaves
from tests.e2e.current_api.specification import FIELDS, Key
from tests.support.clients.voting import code

FIRM = [
    (resource, path, key)
    for resource in FIELDS
    for path, kind in leaves(resource)
    for key in (kind.first, *(kind.first.values() if isinstance(kind.first, dict) else ()))
    if isinstance(key, Key)
]
"""References of accounts, and of members that only the legacy generation names: tested with those."""
WHOLE = [row for row in FIRM if row[2].resource not in ("days", "venues", "images")]


@pytest.mark.parametrize(("resource", "path", "key"), WHOLE, ids=str)
async def test_what_is_referred_to_goes_only_when_nobody_refers_to_it(
    records: Records, resource: str, path: str, key: Key
) -> None:
    target = f"/{key.resource}/{(await records.made(key.resource, {}))['key']}"
    name = target.rsplit("/", 1)[1]
    value: Any = name if isinstance(dict(leaves(resource))[path].first, Key) else {"key": name}
    made = await records.made(resource, records.body(resource, {path: value}))
    refused = await records.client.delete(target)
    assert code(refused) == (409, "in_use")
    assert refused.json()["referrers"] == [{"resource": resource, "key": made["key"]}]
    answer = await records.patch(resource, made["key"], records.body(resource, {path: None}))
    assert answer.status_code == 200
    assert (await records.client.delete(target)).status_code == 204
    assert (await records.create(resource, records.body(resource, {path: value}))).status_code == 422


@pytest.mark.parametrize("member", ["day_id", "venue_id"])
async def test_a_day_or_venue_with_timeslots_stays(records: Records, member: str) -> None:
    parts = {"day_id": "days", "venue_id": "venues"}[member]
    schedule = await records.made("conventions", {parts: [{"id": "one"}, {"id": "two"}]})
    where = f"/conventions/{schedule['key']}"
    slot = (await records.client.post(f"{where}/timeslots", json={member: "one"})).json()
    for patch in ({parts: [{"id": "two"}]}, {parts: None}):
        refused = await records.client.patch(where, json=patch)
        assert code(refused) == (409, "in_use")
        assert refused.json()["referrers"] == [{"resource": "timeslots", "key": slot["key"]}]
    kept = await records.client.patch(where, json={parts: [{"id": "one", "title": "renamed"}]})
    assert kept.status_code == 200
    assert (await records.client.patch(f"/timeslots/{slot['key']}", json={member: None})).status_code == 200
    assert (await records.client.patch(where, json={parts: []})).status_code == 200


async def test_a_day_of_another_schedule_is_none(records: Records) -> None:
    one = await records.made("conventions", {"days": [{"id": "one"}]})
    other = await records.made("conventions", {"days": [{"id": "other"}]})
    for wrong in ("other", f"{other['key']}/other", f"../{other['key']}/other"):
        answer = await records.client.post(f"/conventions/{one['key']}/timeslots", json={"day_id": wrong})
        assert [error["pointer"] for error in answer.json()["errors"]] == ["/day_id"]


@pytest.mark.secured
async def test_a_schedule_goes_with_its_timeslots(records: Records) -> None:
    article = await records.made("articles", {})
    schedule = await records.made("conventions", {"days": [{"id": "one"}]})
    where = f"/conventions/{schedule['key']}"
    body = {"day_id": "one", "article": article["key"]}
    slots = [(await records.client.post(f"{where}/timeslots", json=body)).json()["key"] for _ in range(2)]
    assert code(await records.client.delete(f"/articles/{article['key']}")) == (409, "in_use")
    assert (await records.client.delete(where)).status_code == 204
    for gone in (where, f"{where}/timeslots", *(f"/timeslots/{slot}" for slot in slots)):
        assert (await records.client.get(gone)).status_code == 404
    assert (await records.client.delete(f"/articles/{article['key']}")).status_code == 204


async def test_what_free_form_members_name_is_no_reference(records: Records) -> None:
    free = {"navigation": {"article": "nothing", "key": "nowhere"}, "content": [{"image": {"key": "nowhere"}}]}
    assert (await records.create("articles", free)).status_code == 201
