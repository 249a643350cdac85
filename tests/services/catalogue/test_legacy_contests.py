"""Legacy contests without the query service: permissions, and faults of bodies and queries."""

import httpx
import pytest

from tests.services.catalogue.conftest import Place
from tests.services.catalogue.image_uploads import legacy_code


async def test_a_write_needs_the_permission_and_the_answer_names_it(place: Place) -> None:
    async with place.legacy("production", "content:read") as reader:
        for method, path in (("POST", "/contests"), ("POST", "/contests/x"), ("DELETE", "/contests/x")):
            answer = await reader.request(method, f"/legacy{path}")
            assert legacy_code(answer) == (400, "forbidden")
            assert "content:write" in answer.json()["error"]["message"]
    async with place.legacy("production", "content:write") as writer:
        assert (await writer.post("/legacy/contests", json={})).status_code == 200


async def test_items_that_are_no_timeslots_are_named_beside_wrong_ones(client: httpx.AsyncClient) -> None:
    span = {"start": "2026-05-01T18:00:00Z", "end": "2026-05-01T19:00:00Z"}
    made = await client.post("/legacy/dev/v2/conventions", json=span)
    path = f"/legacy/v2/conventions/{made.json()['convention_key']}/timeslots/multi"
    items = [7, span | {"title": 7}, {"timeslot_key": 1}, {"end": span["end"]}]
    answer = await client.post(path, json={"timeslots": items})
    message = answer.json()["error"]["message"]
    assert answer.status_code == 400
    assert [each.partition(":")[0] for each in message.split("; ")] == ["0", "1.title", "2", "3.start"]


@pytest.mark.parametrize("field", ["custom_data", "add_participants", "tags"])
async def test_a_form_may_not_nest_deeper_than_a_body(client: httpx.AsyncClient, field: str) -> None:
    deep = '{"a":' * 300 + "1" + "}" * 300
    answer = await client.post("/legacy/contests", data={field: deep})
    assert answer.status_code == (400 if field == "custom_data" else 200)


async def test_all_faults_of_a_list_s_query_are_named_at_once(client: httpx.AsyncClient) -> None:
    query = {"scheduled": "maybe", "is_template": "perhaps", "type": "odd"}
    answer = await client.get("/legacy/v2/articles", params=query)
    assert answer.status_code == 400
    said = answer.json()["error"]["message"].split("; ")
    assert [each.partition(" ")[0] for each in said] == list(query)
