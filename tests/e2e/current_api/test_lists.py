"""Lists: their pages, filters by tags, phase, status, type and words of the title, and orders."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.e2e.current_api.specification import ENDPOINTS
from tests.support.clients.http_clients import ok
from tests.support.clients.stack_keys import client_with
from tests.support.clients.voting import Api, code, hours_from_now, running
from tests.support.eventually import eventually

READER = ("content:read", "results:read")
LISTS = [path for method, path in ENDPOINTS if method == "GET" and "<" not in path]
TAGGED = ["/contests", "/apps", "/surveys", "/feeds", "/articles"]


@pytest.fixture
async def api(stack: Supervisor) -> AsyncIterator[Api]:
    """Of an account that has nothing yet."""
    permissions = (*READER, "content:write", "votes:write", "results:read_hidden")
    async with await client_with(stack, uuid.uuid4().hex, *permissions) as client:
        yield Api(client)


async def make(api: Api, where: str, **body: Any) -> str:
    path = f"{where}/{uuid.uuid4().hex}" if where == "/surveys" else where
    return ok(await api.client.post(path, json=body), 201)["key"]


async def found(api: Api, where: str, **query: Any) -> list[str]:
    """Return the keys of all pages of two."""
    keys: list[str] = []
    token: dict[str, str] = {}
    while True:
        answer = await api.client.get(where, params=query | token | {"limit": 2})
        assert answer.status_code == 200, answer.text
        keys += [record["key"] for record in answer.json()["data"]]
        if not answer.json()["has_more"]:
            return keys
        token = {"next": answer.json()["next"]}


@pytest.mark.parametrize("where", TAGGED)
async def test_tags_must_all_be_there(api: Api, where: str) -> None:
    both, _, other = [await make(api, where, tags=tags) for tags in (["a", "b"], ["a"], ["c", "b", "a"])]
    assert await found(api, where, tags=["a", "b"]) == [other, both]
    assert await found(api, where, tags="nothing") == []


@pytest.mark.parametrize("where", LISTS)
async def test_the_bounds_of_a_page_and_a_broken_token(api: Api, where: str) -> None:
    empty = await api.client.get(where, params={"limit": 100})
    assert (empty.status_code, empty.json()) == (200, {"data": [], "has_more": False, "next": None})
    for wrong in ({"limit": 0}, {"limit": 101}, {"limit": "x"}, {"next": "x"}, {"updated_since": "yesterday"}):
        assert code(await api.client.get(where, params=wrong)) == (422, "validation_failed")


async def test_a_page_has_twenty_unless_asked_otherwise(api: Api) -> None:
    keys = [await make(api, "/articles") for _ in range(21)]
    first = (await api.client.get("/articles")).json()
    assert ([record["key"] for record in first["data"]], first["has_more"]) == (keys[:0:-1], True)
    last = (await api.client.get("/articles", params={"next": first["next"]})).json()
    assert ([record["key"] for record in last["data"]], last["has_more"], last["next"]) == ([keys[0]], False, None)


async def test_a_contest_shows_its_phase_and_is_found_by_it(api: Api) -> None:
    bodies: dict[str, dict[str, Any]] = {
        "setup": {"contest_config": running()["contest_config"]},
        "announced": {"publish": hours_from_now(-1)},
        "running": running(),
        "finished": running(end=hours_from_now(-0.5)),
    }
    keys = {phase: await make(api, "/contests", **body) for phase, body in bodies.items()}
    for phase, key in keys.items():
        read = await api.client.get(f"/contests/{key}")
        assert read.json()["phase"] == phase
        assert await found(api, "/contests", phase=phase) == [key]
        sent_back = await api.client.patch(f"/contests/{key}", json={"phase": phase})
        assert (sent_back.status_code, sent_back.json()["phase"]) == (200, phase)
    assert code(await api.client.get("/contests", params={"phase": "over"})) == (422, "validation_failed")


async def test_the_entity_tag_of_a_contest_changes_with_its_phase(api: Api) -> None:
    key = await make(api, "/contests", **running(start=hours_from_now(3 / 3600)))
    tags: dict[str, set[str]] = {"announced": set(), "running": set()}

    async def runs() -> bool:
        read = await api.client.get(f"/contests/{key}")
        tags[read.json()["phase"]].add(read.headers["etag"])
        unchanged = await api.client.get(f"/contests/{key}", headers={"If-None-Match": read.headers["etag"]})
        return unchanged.status_code == 304 and bool(tags["running"])

    await eventually(runs)
    assert not tags["announced"] & tags["running"]


async def test_contests_are_found_by_type_and_words_of_the_title(api: Api) -> None:
    song = await make(api, "/contests", title="Song of the Year: Überraschung")
    taste = await make(api, "/contests", title="Taste of the year", contest_type="rating")
    await make(api, "/contests")
    assert await found(api, "/contests", type="rating") == [taste]
    assert await found(api, "/contests", q="yea") == [taste, song]
    assert await found(api, "/contests", q="YEAR so") == [song]
    assert await found(api, "/contests", q="uber") == [song]
    assert await found(api, "/contests", q="ear") == []
    assert await found(api, "/contests", q="year", type="voteonly") == [song]
    for wrong in ({"q": " - "}, {"q": "x" * 101}, {"type": "raffle"}):
        assert code(await api.client.get("/contests", params=wrong)) == (422, "validation_failed")


async def test_participants_are_found_by_status_and_title_in_the_order_of_their_numbers(api: Api) -> None:
    contest = await api.contest(participants=0)
    where = f"{contest.path}/participants"
    keys = [
        await make(api, where, title=f"Ada {number}", status=status)
        for number, status in enumerate(["approved", "pending", "approved", "rejected", "approved"])
    ]
    assert await found(api, where, status="approved") == [keys[4], keys[2], keys[0]]
    assert await found(api, where, order="running_number") == keys
    assert await found(api, where, order="running_number", status="approved") == keys[::2]
    assert await found(api, where, q="3", order="running_number") == [keys[3]]
    for wrong in ({"status": "good"}, {"order": "start"}, {"order": "votes", "updated_since": hours_from_now(0)}):
        assert code(await api.client.get(where, params=wrong)) == (422, "validation_failed")
    mixed = (await api.client.get(where, params={"limit": 1})).json()["next"]
    wrong = {"order": "running_number", "next": mixed}
    assert code(await api.client.get(where, params=wrong)) == (422, "validation_failed")


async def test_pages_by_number_hold_still_while_participants_come_and_go(api: Api) -> None:
    contest = await api.contest(participants=5)
    where, keys = f"{contest.path}/participants", contest.participants
    query = {"order": "running_number", "limit": "2"}
    first = (await api.client.get(where, params=query)).json()
    assert [record["key"] for record in first["data"]] == keys[:2]
    await api.client.delete(f"/participants/{keys[1]}")
    await api.client.delete(f"/participants/{keys[3]}")
    added = await make(api, where)
    second = (await api.client.get(where, params=query | {"next": first["next"]})).json()
    assert [record["key"] for record in second["data"]] == [keys[2], keys[4]]
    last = (await api.client.get(where, params=query | {"next": second["next"]})).json()
    assert ([record["key"] for record in last["data"]], last["has_more"]) == ([added], False)


async def test_participants_are_ordered_by_their_votes(api: Api) -> None:
    contest = await api.contest(participants=5)
    where, keys = f"{contest.path}/participants", contest.participants
    position = ""
    for voter, choice in enumerate([3, 3, 3, 1, 1, 4]):
        cast = await contest.vote(choice, f"voter-{voter}")
        assert cast.status_code == 201, cast.text
        position = cast.headers["tally-position"]
        await contest.counts(position)
    expected = [keys[3], keys[1], keys[4], keys[0], keys[2]]

    async def is_ordered() -> bool:
        return await found(api, where, order="votes") == expected

    await eventually(is_ordered)
    assert await found(api, where, order="votes", q="2") == [keys[2]]
    assert (await api.client.patch(f"/participants/{keys[3]}", json={"data": {"x": 1}})).status_code == 200
    shown = (await api.client.get(where, params={"order": "votes"})).json()["data"]
    assert [record["data"] for record in shown] == [{"x": 1}, {}, {}, {}, {}]
    assert [record["vote_count"] for record in shown] == [3, 2, 1, 0, 0]


async def test_the_order_by_votes_obeys_the_visibility_of_counts(stack: Supervisor) -> None:
    account = uuid.uuid4().hex
    async with (
        await client_with(stack, account, "content:write", *READER) as reader,
        await client_with(stack, account, "content:read") as editor,
    ):
        contest = await Api(reader).contest(vote_visibility="hidden_until_end")
        where = f"{contest.path}/participants"
        assert code(await reader.get(where, params={"order": "votes"})) == (403, "results_hidden")
        assert code(await editor.get(where, params={"order": "votes"})) == (403, "forbidden")
        assert (await editor.get(where, params={"order": "running_number"})).status_code == 200


async def test_timeslots_are_ordered_by_their_start(api: Api) -> None:
    convention = await make(api, "/conventions")
    where = f"/conventions/{convention}/timeslots"
    starts = ["2026-05-02T10:00:00Z", None, "2026-05-01T10:00:00Z", "2026-05-01T10:00:00Z", "0999-05-01T10:00:00Z"]
    keys = [await make(api, where, start=start) for start in starts]
    assert await found(api, where, order="start") == [keys[4], *sorted(keys[2:4]), keys[0], keys[1]]
    moved = await api.client.patch(f"/timeslots/{keys[1]}", json={"start": "2026-04-01T10:00:00Z"})
    assert moved.status_code == 200
    assert (await api.client.delete(f"/timeslots/{keys[4]}")).status_code == 204
    assert await found(api, where, order="start") == [keys[1], *sorted(keys[2:4]), keys[0]]
    other = await make(api, "/conventions")
    assert await found(api, f"/conventions/{other}/timeslots", order="start") == []


async def test_articles_leave_out_templates_and_scheduled_ones_unless_asked(api: Api) -> None:
    plain = await make(api, "/articles", title="News", publish=hours_from_now(-1))
    splash = await make(api, "/articles", title="Newsflash", type="splash")
    template = await make(api, "/articles", title="News", is_template=True)
    scheduled = await make(api, "/articles", title="News", publish=hours_from_now(1))
    assert await found(api, "/articles") == [splash, plain]
    assert await found(api, "/articles", is_template="true") == [template]
    assert await found(api, "/articles", scheduled="true") == [scheduled]
    assert await found(api, "/articles", type="splash") == [splash]
    assert await found(api, "/articles", q="news") == [splash, plain]
    for wrong in ({"type": "essay"}, {"is_template": "maybe"}, {"scheduled": "1 or so"}):
        assert code(await api.client.get("/articles", params=wrong)) == (422, "validation_failed")
