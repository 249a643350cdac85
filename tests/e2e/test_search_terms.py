"""Search terms are one thing in both API generations; icons of terms that stay are kept."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.support.builders.pictures import picture
from tests.support.clients.http_clients import ok
from tests.support.clients.voting import Api

TIMES = {"start": "2026-05-01T18:00:00Z", "end": "2026-05-01T19:00:00Z"}
Record = tuple[str, str, str]
"""Current path, legacy path, and the current member."""


@pytest.fixture(params=["timeslot", "convention"])
async def record(api: Api, request: pytest.FixtureRequest) -> Record:
    made = (await api.client.post("/conventions", json={"title": "C"} | TIMES)).json()
    if request.param == "convention":
        path = f"/conventions/{made['key']}"
        return path, f"/v2{path}", "search_help"
    slot = (await api.client.post(f"/conventions/{made['key']}/timeslots", json=TIMES)).json()
    return f"/timeslots/{slot['key']}", f"/v2/timeslots/{slot['key']}", "search_terms"


async def image(api: Api) -> str:
    return ok(await api.client.post("/images", files={"file": ("a.png", picture("png", 8, 8))}), 201)["key"]


def shown(helps: list[dict[str, Any]]) -> list[tuple[str, str | None]]:
    return [(each["term"], each["icon"]["image_id"] if each["icon"] else None) for each in helps]


async def test_terms_written_through_one_generation_are_read_through_the_other(
    api: Api, legacy: httpx.AsyncClient, record: Record
) -> None:
    path, old, member = record
    icon = await image(api)
    helps = [{"term": "jazz", "icon_id": icon}, {"term": "rock"}]
    assert (await legacy.post(old, json={"search_helps": helps})).status_code == 200
    found = (await api.client.get(path)).json()[member]
    assert found == (["jazz", "rock"] if member == "search_terms" else [{"term": "jazz"}, {"term": "rock"}])
    changed = await api.client.patch(path, json={member: ["pop", "jazz"]})
    assert changed.status_code == 200, changed.text
    assert shown((await legacy.get(old)).json()["search_helps"]) == [("pop", None), ("jazz", icon)]
    assert (await legacy.post(old, json={"title": "Other"})).status_code == 200
    assert (await api.client.get(path)).json()[member] == ["pop", "jazz"]
    assert (await api.client.patch(path, json={member: None})).status_code == 200
    assert (await legacy.get(old)).json()["search_helps"] == []


async def test_a_record_sent_back_with_other_terms_changes_both(api: Api, record: Record) -> None:
    path, _, member = record
    assert (await api.client.patch(path, json={member: ["a", "b"]})).status_code == 200
    read = (await api.client.get(path)).json()
    again = await api.client.patch(path, json=read | {member: ["b", "c"]})
    assert again.status_code == 200, again.text
    assert [each["term"] for each in again.json()["search_helps"]] == ["b", "c"]
