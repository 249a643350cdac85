"""The vote count record: its shape, visibility and freshness, also where it is served without ASGI."""

import asyncio
from base64 import b64decode
from pathlib import Path

import pytest
from httpx import Response

from libs.web.server import asgi_routes
from tests.services.query.query_environment import QueryEnvironment, contest, figures, open_environment, song
from tests.support.clients.http_clients import http_client
from tests.support.clients.positions import position_tokens
from tests.support.clients.voting import code
from tests.support.servers.serving import served

COUNTED = {"count", "anonymous_voter_count", "unique_voter_count"}
PATH = "/contests/song/vote_updates"
OF_THE_REQUEST = ("date", "x-request-id", "ratelimit", "ratelimit-policy")


async def test_the_record_has_exactly_the_members_of_the_specification(
    env: QueryEnvironment,
) -> None:
    key = await song(env)
    before = await env.counts(key)
    assert figures(before) == figures(before["participants"]["a"]) == (0, 0, 0)
    assert before["updated"] == before["created"]
    record = await env.counts(key, position=await env.vote("a", 2))
    top = {"contest_key", "contest_type", "created", "updated", "participants"}
    assert set(record) == top | COUNTED | {"total_vote_sources"}
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
    for query in ("", "?sources=false"):
        plain = await env.counts(key, query=query)
        assert set(plain) == top | COUNTED
        assert set(plain["participants"]["a"]) == COUNTED


async def test_a_voter_counts_once_across_sources_and_participants_and_partitions(
    env: QueryEnvironment, key: str
) -> None:
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


async def test_an_unchanged_record_is_answered_304_and_a_vote_changes_its_tag(
    env: QueryEnvironment, key: str
) -> None:
    path = f"{PATH}?sources=true"
    first = await env.get(path, key)
    tag = first.headers["etag"]
    assert not tag.startswith("W/")
    again = await env.get(path, key, **{"if-none-match": f'"x", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    for answer in (first, again):
        assert answer.headers["cache-control"] == "private, max-age=1"
        assert answer.headers["tally-final"] == "provisional"
    for other in (PATH, f"{path}&min_position={await env.vote('a')}"):
        changed = await env.get(other, key, **{"if-none-match": tag})
        assert changed.status_code == 200
        assert changed.headers["etag"] != tag


async def test_a_catalogue_write_shows_in_the_very_next_read(env: QueryEnvironment, key: str) -> None:
    first = await env.get(PATH, key)
    for number in range(20):
        await env.production.enter("song", f"n{number}")
        found = await env.read(PATH, key, **{"if-none-match": first.headers["etag"]})
        assert f"n{number}" in found["participants"]
    await env.production.delete("contests", "song")
    assert (await env.get(PATH, key)).status_code == 404


async def test_a_reader_who_names_a_position_sees_its_vote_at_once(env: QueryEnvironment, key: str) -> None:
    """A position of another contest's vote is covered, too, by counts that it did not change."""
    for number in range(1, 30):
        for voted in ("song", "other"):
            position = await env.vote("a", voter=f"v{number % 7}", contest=voted)
            response = await env.get(f"{PATH}?min_position={position}", key)
            assert response.json()["count"] == number
            [(partition, offset)] = (await env.tokens.decode(position)).items()
            assert (await env.tokens.decode(response.headers["tally-position"]))[partition] >= offset


async def test_readers_wait_for_all_positions_that_they_name(env: QueryEnvironment, key: str) -> None:
    positions = [await env.vote("a", voter=f"v{number}") for number in range(7)]
    query = "&".join(f"min_position={position}" for position in positions)
    late = env.cast("a", voter="late")
    path = f"{PATH}?{query}&min_position={env.position_after(late)}&{query}"
    waiting = asyncio.gather(*(env.read(path, key) for _ in range(20)))
    for _ in range(3):  # those who do not name the late one have their answers meanwhile
        assert (await env.read(f"{PATH}?{query}", key))["count"] == 7
    assert not waiting.done()
    await env.fold(late)
    assert [record["count"] for record in await waiting] == [8] * 20


async def test_a_token_of_another_deployment_is_none(env: QueryEnvironment, key: str, tmp_path: Path) -> None:
    others = await position_tokens(str(tmp_path))
    for number in range(2):
        await env.vote("a", voter=f"v{number}")
        refused = await env.get(f"{PATH}?min_position={others.encode({0: 1})}", key)
        assert (refused.status_code, refused.json()["errors"][0]["parameter"]) == (422, "min_position")


async def test_no_response_shows_the_offsets_of_a_partition(env: QueryEnvironment, key: str) -> None:
    """They count the votes of all accounts."""
    await env.vote("a")
    for path in ("vote_updates", "vote_updates?details=true&sources=true", "timeline"):
        answer = await env.get(f"/contests/song/{path}", key)
        token = answer.headers["tally-position"]
        offsets = await env.tokens.decode(token)
        assert offsets
        raw = b64decode(token + "=" * (-len(token) % 4), altchars=b"-_")
        assert len(raw) == 17 + 12 * len(offsets)


async def test_a_position_that_does_not_come_is_503_and_may_be_asked_for_again(
    valkey_address: str, namespace: str
) -> None:
    async with open_environment(valkey_address, namespace, count_wait_ms=100) as env:
        key, query = await song(env), f"min_position={env.tokens.encode({0: 1_000})}"
        response = await env.get(f"{PATH}?{query}", key)
        assert code(response) == (503, "views_unavailable")
        assert int(response.headers["retry-after"]) >= 1
        assert code(await env.get(f"/contests/none/vote_updates?{query}", key)) == (404, "not_found")


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
async def test_a_bad_parameter_is_422(env: QueryEnvironment, key: str, query: str) -> None:
    assert code(await env.get(f"{PATH}?{query}", key)) == (422, "validation_failed")


@pytest.mark.parametrize("path", [PATH, f"{PATH}/stream", "/contests/song/timeline"])
async def test_the_key_decides(env: QueryEnvironment, path: str) -> None:
    await song(env)
    refused = await env.get(path, await env.production.key(permissions=("votes:write",)))
    assert (refused.status_code, refused.json()["permission"]) == (403, "results:read")
    for key in ("", "tk_nobody", await env.test.key()):
        assert code(await env.get(path, key)) == (401, "unauthorized")
    assert code(await env.get(path, await env.production.key("globex"))) == (404, "not_found")


def comparable(response: Response) -> tuple[int, bytes, dict[str, str]]:
    if response.status_code not in (200, 304):
        return response.status_code, response.json()["code"].encode(), {}
    headers = {name: value for name, value in response.headers.items() if name not in OF_THE_REQUEST}
    return response.status_code, response.content, headers


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (PATH, 200),
        (f"{PATH}/", 200),
        (f"{PATH}?sources=true&details=1", 200),
        (f"{PATH}?sources=perhaps", 422),
        (f"{PATH}?source=true", 422),
        ("/contests/none/vote_updates", 404),
        ("/contests/hidden/vote_updates", 403),
    ],
)
async def test_a_plain_read_is_answered_without_asgi_as_with_it(
    env: QueryEnvironment, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    key = await song(env) if "hidden" not in path else await env.production.reader()
    await env.production.create("contests", "hidden", contest(vote_visibility="hidden"))
    await env.vote("a", 2)
    through_asgi = await env.get(path, key)
    assert through_asgi.status_code == status
    monkeypatch.delattr(asgi_routes, "AsgiRequest")
    async with served(env.app) as server, http_client(base_url=server.url) as client:
        directly = await client.get(path, headers={"authorization": f"Bearer {key}"})
        assert comparable(directly) == comparable(through_asgi)
        assert directly.headers["cache-control"] == through_asgi.headers["cache-control"]


async def test_without_asgi_a_change_shows_at_once_and_a_position_is_waited_for(
    env: QueryEnvironment, key: str
) -> None:
    await env.vote("a", 2)
    condition = {"if-none-match": (await env.get(PATH, key)).headers["etag"]}
    async with served(env.app) as server, http_client(base_url=server.url) as client:
        client.headers["authorization"] = f"Bearer {key}"
        unchanged = await client.get(PATH, headers=condition)
        assert unchanged.status_code == 304
        assert comparable(unchanged) == comparable(await env.get(PATH, key, **condition))
        await env.production.enter("song", "c")
        assert set((await client.get(PATH, headers=condition)).json()["participants"]) == {"a", "b", "c"}
        position = await env.vote("a", 3, voter="bob")
        assert (await client.get(f"{PATH}?min_position={position}")).json()["count"] == 5
