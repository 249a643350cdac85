"""The vote count record: its shape, visibility and freshness."""

import asyncio
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from libs.tally.events import LogCreated
from tests.services.query.query_environment import QueryEnvironment, open_environment, song
from tests.support.eventually import eventually
from tests.support.positions import position_tokens

COUNTED = {"count", "anonymous_voter_count", "unique_voter_count"}


def figures(counted: dict[str, Any]) -> tuple[int, int, int]:
    return counted["count"], counted["unique_voter_count"], counted["anonymous_voter_count"]


async def test_the_record_has_exactly_the_members_of_the_specification(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.vote("a", 2)
    record = await env.counts(key)
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


async def test_before_any_vote_everything_is_zero_and_updated_is_the_creation(env: QueryEnvironment) -> None:
    key = await song(env)
    record = await env.counts(key)
    assert figures(record) == (0, 0, 0)
    assert figures(record["participants"]["a"]) == (0, 0, 0)
    assert record["updated"] == record["created"]


async def test_without_sources_both_source_lists_are_absent(env: QueryEnvironment) -> None:
    key = await song(env)
    for query in ("", "?sources=false"):
        record = await env.counts(key, query=query)
        assert "total_vote_sources" not in record
        assert set(record["participants"]["a"]) == COUNTED


async def test_a_voter_counts_once_across_sources_and_participants_and_partitions(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.vote("a", 1, voter="ann")
    await env.vote("a", 5, voter="ann", source="c-paid")
    await env.vote("b", 2, voter="ann")
    for voter in range(20):
        await env.vote("a", 1, voter=f"guest {voter}", anonymous=True)
    record = await env.counts(key)
    assert figures(record) == (28, 21, 20)
    assert figures(record["participants"]["a"]) == (26, 21, 20)
    assert figures(record["participants"]["b"]) == (2, 1, 0)
    assert [figures(s) for s in record["participants"]["a"]["vote_sources"]] == [(21, 21, 20), (5, 1, 0)]
    assert [figures(s) for s in record["total_vote_sources"]] == [(23, 21, 20), (5, 1, 0)]


async def test_an_unchanged_record_is_answered_304_and_a_vote_changes_its_tag(env: QueryEnvironment) -> None:
    key = await song(env)
    first = await env.get("/contests/song/vote_updates?sources=true", key)
    tag = first.headers["etag"]
    assert not tag.startswith("W/")
    assert first.headers["cache-control"] == "private, max-age=1"
    assert first.headers["tally-final"] == "provisional"
    again = await env.get("/contests/song/vote_updates?sources=true", key, **{"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert again.headers["tally-final"] == "provisional"
    other = await env.get("/contests/song/vote_updates", key, **{"if-none-match": tag})
    assert other.status_code == 200
    position = await env.vote("a")
    path = f"/contests/song/vote_updates?sources=true&min_position={position}"
    changed = await env.get(path, key, **{"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.headers["etag"] != tag


async def test_a_catalogue_write_shows_in_the_very_next_read(env: QueryEnvironment) -> None:
    key = await song(env)
    first = await env.get("/contests/song/vote_updates", key)
    for number in range(20):
        await env.production.enter("song", f"n{number}")
        found = await env.get("/contests/song/vote_updates", key, **{"if-none-match": first.headers["etag"]})
        assert found.status_code == 200
        assert f"n{number}" in found.json()["participants"]
    await env.production.delete("contests", "song", "song")
    assert (await env.get("/contests/song/vote_updates", key)).status_code == 404


async def test_votes_show_without_naming_a_position(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.counts(key)
    await env.vote("a")

    async def seen() -> bool:
        return bool((await env.counts(key))["count"] == 1)

    await eventually(seen)


async def test_a_reader_who_names_a_position_sees_its_vote_at_once(env: QueryEnvironment) -> None:
    key = await song(env)
    for number in range(1, 30):
        position = await env.vote("a", voter=f"v{number % 7}")
        response = await env.get(f"/contests/song/vote_updates?min_position={position}", key)
        assert response.json()["count"] == number
        (partition, offset) = next(iter((await env.tokens.decode(position)).items()))
        assert (await env.tokens.decode(response.headers["tally-position"]))[partition] >= offset


async def test_a_reader_of_several_positions_sees_all_their_votes(env: QueryEnvironment) -> None:
    key = await song(env)
    positions = [await env.vote("a", voter=f"v{number}") for number in range(7)]
    query = "&".join(f"min_position={position}" for position in positions)
    assert (await env.get(f"/contests/song/vote_updates?{query}", key)).json()["count"] == 7
    late = env.cast("a", voter="late")
    waiting = asyncio.ensure_future(
        env.get(f"/contests/song/vote_updates?min_position={env.position_after(late)}&{query}", key)
    )
    await env.fold(late)
    assert (await waiting).json()["count"] == 8


async def test_a_token_of_another_deployment_is_none(env: QueryEnvironment, tmp_path: Path) -> None:
    others = await position_tokens(str(tmp_path))
    key = await song(env)
    for number in range(2):
        await env.vote("a", voter=f"v{number}")
        refused = await env.get(f"/contests/song/vote_updates?min_position={others.encode({0: 1})}", key)
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "min_position")


async def test_no_response_shows_the_offsets_of_a_partition(env: QueryEnvironment) -> None:
    """They count the votes of all accounts."""
    key = await song(env)
    await env.vote("a")
    for path in ("vote_updates", "vote_updates?details=true&sources=true", "timeline"):
        answer = await env.get(f"/contests/song/{path}", key)
        token = answer.headers["tally-position"]
        assert await env.tokens.decode(token)
        raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_")
        assert len(raw) == 17 + 12 * len(await env.tokens.decode(token))


async def test_a_reader_waits_for_a_position_that_is_not_in_yet(env: QueryEnvironment) -> None:
    key = await song(env)
    cast = env.cast("a")
    position = env.position_after(cast)
    path = f"/contests/song/vote_updates?min_position={position}"
    waiting = asyncio.gather(*(env.get(path, key) for _ in range(20)))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    await env.fold(cast)
    assert [response.json()["count"] for response in await waiting] == [1] * 20


async def test_a_position_that_does_not_come_is_503_and_may_be_asked_for_again(
    valkey_address: str, namespace: str
) -> None:
    async with open_environment(valkey_address, namespace, count_wait_ms=100) as env:
        path = f"/contests/song/vote_updates?min_position={env.tokens.encode({0: 1_000})}"
        response = await env.get(path, await song(env))
    assert (response.status_code, response.json()["code"]) == (503, "views_unavailable")
    assert int(response.headers["retry-after"]) >= 1


async def test_what_is_not_there_is_not_waited_for(env: QueryEnvironment) -> None:
    key = await song(env)
    response = await env.get(f"/contests/none/vote_updates?min_position={env.tokens.encode({0: 1_000})}", key)
    assert (response.status_code, response.json()["code"]) == (404, "not_found")


async def test_a_position_covers_events_that_changed_nothing(env: QueryEnvironment) -> None:
    key = await song(env)
    await env.counts(key)
    position = await env.fold(LogCreated("log"), partition=2)
    response = await env.get(f"/contests/song/vote_updates?min_position={position}", key)
    assert (await env.tokens.decode(response.headers["tally-position"]))[2] == 1


@pytest.mark.parametrize(
    "query",
    [
        "min_position=garbage",
        "min_position=",
        "sources=perhaps",
        "at=",
        "at=yesterday",
        "at=2026-01-01T00:00:00",
        "at=2026-02-30T00:00:00Z",
        "at=1790000000",
    ],
)
async def test_a_bad_parameter_is_422(env: QueryEnvironment, query: str) -> None:
    key = await song(env)
    response = await env.get(f"/contests/song/vote_updates?{query}", key)
    assert (response.status_code, response.json()["code"]) == (422, "validation_failed")


async def test_the_key_decides(env: QueryEnvironment) -> None:
    await song(env)
    path = "/contests/song/vote_updates/"
    assert (await env.client.get(path)).status_code == 401
    assert (await env.get(path, "tk_nobody")).status_code == 401
    writer = await env.production.key(permissions=("votes:write",))
    refused = await env.get(path, writer)
    assert (refused.status_code, refused.json()["permission"]) == (403, "results:read")
    stranger = await env.production.key("globex")
    assert (await env.get(path, stranger)).status_code == 404
    tester = await env.test.key()
    assert (await env.get(path, tester)).status_code == 401
