"""The vote count record: its shape, visibility and freshness."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from libs.contracts.position_token import decode_positions, encode_positions
from libs.tally.events import LogCreated
from tests.services.query.world import World, closed_contest, contest
from tests.support.builders import a_removal
from tests.support.eventually import eventually
from tests.support.openapi import resolved

COUNTED = {"count", "anonymous_voter_count", "unique_voter_count"}


async def song(world: World, participants: str = "ab", **config: Any) -> str:
    """A running contest with approved participants; a key that may do everything."""
    await world.production.create("contests", "song", contest(**config))
    for participant in participants:
        await world.production.enter("song", participant)
    return await world.production.key()


def figures(counted: dict[str, Any]) -> tuple[int, int, int]:
    return counted["count"], counted["unique_voter_count"], counted["anonymous_voter_count"]


async def test_the_record_has_exactly_the_members_of_the_specification(world: World) -> None:
    key = await song(world)
    await world.vote("a", 2)
    record = await world.counts(key)
    top = {"contest_key", "contest_type", "created", "updated", "participants", "total_vote_sources"}
    assert set(record) == top | COUNTED
    assert (record["contest_key"], record["contest_type"]) == ("song", "voteonly")
    assert record["updated"] == "2026-09-21T14:13:20.000000Z"
    assert set(record["participants"]) == {"a", "b"}
    for participant in record["participants"].values():
        assert set(participant) == COUNTED | {"vote_sources"}
        assert [set(source) for source in participant["vote_sources"]] == [COUNTED | {"source"}] * 2
        assert [source["source"] for source in participant["vote_sources"]] == ["c-free", "c-paid"]
    total = COUNTED | {"source", "title", "is_in_total", "is_internal", "updated"}
    assert [set(source) for source in record["total_vote_sources"]] == [total] * 2
    assert [source["source"] for source in record["total_vote_sources"]] == ["c-free", "c-paid"]
    assert all(source["is_in_total"] and source["is_internal"] for source in record["total_vote_sources"])


async def test_before_any_vote_everything_is_zero_and_updated_is_the_creation(world: World) -> None:
    key = await song(world)
    record = await world.counts(key)
    assert figures(record) == (0, 0, 0)
    assert figures(record["participants"]["a"]) == (0, 0, 0)
    assert record["updated"] == record["created"]


async def test_without_sources_both_source_lists_are_absent(world: World) -> None:
    key = await song(world)
    for query in ("", "?sources=false"):
        record = await world.counts(key, query=query)
        assert "total_vote_sources" not in record
        assert set(record["participants"]["a"]) == COUNTED


async def test_a_voter_counts_once_across_sources_and_participants_and_partitions(world: World) -> None:
    key = await song(world)
    await world.vote("a", 1, voter="ann")
    await world.vote("a", 5, voter="ann", source="c-paid")
    await world.vote("b", 2, voter="ann")
    for voter in range(20):
        await world.vote("a", 1, voter=f"guest {voter}", anonymous=True)
    record = await world.counts(key)
    assert figures(record) == (28, 21, 20)
    assert figures(record["participants"]["a"]) == (26, 21, 20)
    assert figures(record["participants"]["b"]) == (2, 1, 0)
    assert [figures(s) for s in record["participants"]["a"]["vote_sources"]] == [(21, 21, 20), (5, 1, 0)]
    assert [figures(s) for s in record["total_vote_sources"]] == [(23, 21, 20), (5, 1, 0)]


async def test_a_voter_who_took_back_every_vote_is_no_voter(world: World) -> None:
    key = await song(world)
    await world.vote("a", 1, voter="guest", anonymous=True)
    await world.vote("b", 2, voter="guest", anonymous=True)
    for vote_id, expected in (("v1", (2, 1, 1)), ("v2", (0, 0, 0))):
        removal = a_removal(vote_id, voter="guest", anonymous=True, contest="song")
        found = await world.counts(key, position=await world.fold(removal))
        assert figures(found) == figures(found["total_vote_sources"][0]) == expected
    assert figures(found["participants"]["a"]) == (0, 0, 0)


async def test_only_approved_participants_appear_and_count(world: World) -> None:
    key = await song(world, "abc")
    for participant in "abc":
        await world.vote(participant, 2, voter=participant)
    await world.production.enter("song", "d", status="pending")
    await world.production.change("participants", "c", {"status": "rejected"}, "song")
    record = await world.counts(key)
    assert set(record["participants"]) == {"a", "b"}
    assert record["count"] == 4
    assert sum(source["count"] for source in record["total_vote_sources"]) == 4


async def test_an_unchanged_record_is_answered_304_and_a_vote_changes_its_tag(world: World) -> None:
    key = await song(world)
    first = await world.get("/contests/song/vote_updates?sources=true", key)
    tag = first.headers["etag"]
    assert not tag.startswith("W/")
    assert first.headers["cache-control"] == "private, max-age=1"
    assert first.headers["tally-final"] == "provisional"
    again = await world.get("/contests/song/vote_updates?sources=true", key, **{"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert again.headers["tally-final"] == "provisional"
    other = await world.get("/contests/song/vote_updates", key, **{"if-none-match": tag})
    assert other.status_code == 200
    position = await world.vote("a")
    path = f"/contests/song/vote_updates?sources=true&min_position={position}"
    changed = await world.get(path, key, **{"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


async def test_a_closed_contest_is_final_when_every_partition_has_passed_its_mark(world: World) -> None:
    key = await song(world)
    await world.production.change("contests", "song", closed_contest("ab"), "song")
    path = "/contests/song/vote_updates?sources=true"
    assert (await world.get(path, key)).headers["tally-final"] == "provisional"
    await world.close()
    final = await world.get(f"{path}&min_position={world.head()}", key)
    again = await world.get(path, key, **{"if-none-match": final.headers["etag"]})
    assert (final.status_code, final.headers["tally-final"]) == (200, "final")
    assert (again.status_code, again.headers["tally-final"]) == (304, "final")


async def test_a_catalogue_write_shows_in_the_very_next_read(world: World) -> None:
    key = await song(world)
    first = await world.get("/contests/song/vote_updates", key)
    for number in range(20):
        await world.production.enter("song", f"n{number}")
        found = await world.get("/contests/song/vote_updates", key, **{"if-none-match": first.headers["etag"]})
        assert found.status_code == 200
        assert f"n{number}" in found.json()["participants"]
    await world.production.delete("contests", "song", "song")
    assert (await world.get("/contests/song/vote_updates", key)).status_code == 404


async def test_the_tag_changes_with_the_phase(world: World) -> None:
    key = await song(world)
    running = await world.get("/contests/song/vote_updates", key)
    await world.production.change("contests", "song", contest(end="2021-01-01T00:00:00Z"), "song")
    finished = await world.get("/contests/song/vote_updates", key)
    assert running.content == finished.content
    assert running.headers["etag"] != finished.headers["etag"]


async def test_votes_show_without_naming_a_position(world: World) -> None:
    key = await song(world)
    await world.counts(key)
    await world.vote("a")

    async def seen() -> bool:
        return bool((await world.counts(key))["count"] == 1)

    await eventually(seen, deadline_s=1)


async def test_a_reader_who_names_a_position_sees_its_vote_at_once(world: World) -> None:
    key = await song(world)
    for number in range(1, 30):
        position = await world.vote("a", voter=f"v{number % 7}")
        response = await world.get(f"/contests/song/vote_updates?min_position={position}", key)
        assert response.json()["count"] == number
        (partition, offset) = next(iter(decode_positions(position).items()))
        assert decode_positions(response.headers["tally-position"])[partition] >= offset


async def test_a_reader_waits_for_a_position_that_is_not_in_yet(world: World) -> None:
    key = await song(world)
    cast = world.cast("a")
    position = world.position_after(cast)
    path = f"/contests/song/vote_updates?min_position={position}"
    waiting = asyncio.gather(*(world.get(path, key) for _ in range(20)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await world.fold(cast)
    assert [response.json()["count"] for response in await waiting] == [1] * 20


async def test_a_position_that_does_not_come_is_503_and_may_be_asked_for_again(world: World) -> None:
    key = await song(world)
    path = f"/contests/song/vote_updates?min_position={encode_positions({0: 1_000})}"
    response = await world.get(path, key)
    assert (response.status_code, response.json()["code"]) == (503, "views_unavailable")
    assert int(response.headers["retry-after"]) >= 1


async def test_what_is_not_there_is_not_waited_for(world: World) -> None:
    key = await song(world)
    response = await world.get(f"/contests/none/vote_updates?min_position={encode_positions({0: 1_000})}", key)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


async def test_a_position_covers_events_that_changed_nothing(world: World) -> None:
    key = await song(world)
    await world.counts(key)
    position = await world.fold(LogCreated("log"), partition=2)
    response = await world.get(f"/contests/song/vote_updates?min_position={position}", key)
    assert decode_positions(response.headers["tally-position"])[2] == 1


@pytest.mark.parametrize(
    "query",
    [
        "min_position=garbage",
        f"min_position={encode_positions({99: 1})}",
        "min_position=",
        "sources=perhaps",
        "at=",
        "at=yesterday",
        "at=2026-01-01T00:00:00",
        "at=2026-02-30T00:00:00Z",
        "at=1790000000",
    ],
)
async def test_a_bad_parameter_is_422(world: World, query: str) -> None:
    key = await song(world)
    response = await world.get(f"/contests/song/vote_updates?{query}", key)
    assert (response.status_code, response.json()["code"]) == (422, "validation_failed")


async def test_the_key_decides(world: World) -> None:
    await song(world)
    path = "/contests/song/vote_updates/"
    assert (await world.client.get(path)).status_code == 401
    assert (await world.get(path, "tk_nobody")).status_code == 401
    writer = await world.production.key(permissions=("votes:write",))
    refused = await world.get(path, writer)
    assert (refused.status_code, refused.json()["permission"]) == (403, "results:read")
    stranger = await world.production.key("globex")
    assert (await world.get(path, stranger)).status_code == 404
    tester = await world.test.key()
    assert (await world.get(path, tester)).status_code == 401


@pytest.mark.parametrize(
    ("visibility", "end", "hidden"),
    [
        ("shown", None, False),
        ("hidden", "2021-01-01T00:00:00Z", True),
        ("hidden_until_end", None, True),
        ("hidden_until_end", "2099-01-01T00:00:00Z", True),
        ("hidden_until_end", "2021-01-01T00:00:00Z", False),
        ("hidden_until_vote", "2099-01-01T00:00:00Z", True),
        ("hidden_until_vote", "2021-01-01T00:00:00Z", False),
    ],
)
async def test_hidden_results_need_a_permission_of_their_own(
    world: World, visibility: str, end: str | None, hidden: bool
) -> None:
    owner = await song(world, vote_visibility=visibility, end=end)
    reader = await world.production.key(permissions=("results:read",))
    assert (await world.get("/contests/song/vote_updates", owner)).status_code == 200
    response = await world.get("/contests/song/vote_updates", reader)
    assert response.status_code == (403 if hidden else 200)
    if hidden:
        assert response.json()["code"] == "results_hidden"


async def test_an_address_answers_with_and_without_a_trailing_slash_and_to_get_alone(world: World) -> None:
    key = await song(world)
    for path in ("/contests/song/vote_updates", "/contests/song/vote_updates/"):
        assert (await world.get(path, key)).status_code == 200
    response = await world.client.post("/contests/song/vote_updates", headers={"authorization": f"Bearer {key}"})
    assert (response.status_code, response.headers["allow"]) == (405, "GET, HEAD")


async def test_the_hot_route_is_documented_like_the_others(world: World) -> None:
    document = (await world.client.get("/openapi.json")).json()
    operation = document["paths"]["/contests/{contest_key}/vote_updates"]["get"]
    names = {resolved(document, each)["name"] for each in operation["parameters"]}
    assert names - {"If-None-Match"} == {"contest_key", "sources", "details", "min_position", "at"}
    schema = operation["responses"]["200"]["content"]["application/json"]["schema"]
    assert schema == {"$ref": "#/components/schemas/VoteCount"}
    assert {"304", "401", "403", "404", "422", "503"} <= set(operation["responses"])
