"""Legacy contests without the query service: permissions, and faults of bodies and queries."""

from typing import Any

import httpx
import pytest

from libs.contracts.limits import ADDED_PARTICIPANTS
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


async def test_many_participants_of_a_new_contest_are_few_events_in_their_order(
    client: httpx.AsyncClient, place: Place
) -> None:
    """Others' changes in the same partition come between them, each as long as one call."""
    catalogue = place.environments["production"]
    extents = await catalogue.reader.extents(catalogue.topic.name, range(catalogue.topic.partitions))
    items: list[Any] = [{"title": f"p{number}"} for number in range(250)]
    items[3] = {"title": "odd", "image_id": "unknown"}
    items[4:8] = [{"title": 7}, "no participant", {"title": "x" * 301}, {"title": "y", "image_id": 5}]
    answer = await client.post("/legacy/contests", json={"add_participants": items})
    assert answer.status_code == 200
    titles = [each["title"] for each in answer.json()["participants"]]
    assert titles == ["p0", "p1", "p2", "odd", "y", *(f"p{number}" for number in range(8, 250))]
    later = await catalogue.reader.extents(catalogue.topic.name, range(catalogue.topic.partitions))
    written = sum(later[at].end - extents[at].end for at in later)
    assert 4 <= written <= 8


async def test_more_participants_than_fit_are_refused_and_nothing_is_written(client: httpx.AsyncClient) -> None:
    items = [{"title": "p"}] * (ADDED_PARTICIPANTS.items + 1)
    answer = await client.post("/legacy/contests", json={"title": "not made", "add_participants": items})
    assert answer.status_code == 400
    assert "add_participants: must have at most 1,000 items" in answer.json()["error"]["message"]
    listed = (await client.get("/contests", params={"q": "not made"})).json()["data"]
    assert listed == []
