"""`vote_updates` responds alike without ASGI, which serves the plain requests of known keys."""

import pytest
from httpx import Response

from services.query.vote_updates import VoteUpdates
from tests.services.query.query_environment import QueryEnvironment, contest
from tests.support.http_clients import http_client
from tests.support.serving import served

COUNTS = "/contests/song/vote_updates"
OF_THE_REQUEST = ("date", "x-request-id", "ratelimit", "ratelimit-policy")


async def set_up(env: QueryEnvironment) -> tuple[str, str]:
    """Create a contest with a vote and one with hidden counts; return a key for all, and one for neither."""
    await env.production.create("contests", "song", contest())
    await env.production.create("contests", "hidden", contest(vote_visibility="hidden"))
    await env.production.enter("song", "a")
    await env.vote("a", 2)
    return await env.production.key(), await env.production.key(permissions=("results:read",))


def comparable(response: Response) -> tuple[int, bytes, dict[str, str]]:
    headers = {name: value for name, value in response.headers.items() if name not in OF_THE_REQUEST}
    body = response.content if response.status_code in (200, 304) else response.json()["code"].encode()
    return response.status_code, body, headers if response.status_code in (200, 304) else {}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (COUNTS, 200),
        (f"{COUNTS}/", 200),
        (f"{COUNTS}?sources=true&details=1", 200),
        (f"{COUNTS}?sources=perhaps", 422),
        (f"{COUNTS}?source=true", 422),
        ("/contests/none/vote_updates", 404),
        ("/contests/hidden/vote_updates", 403),
    ],
)
async def test_a_plain_read_is_answered_without_asgi_as_with_it(
    env: QueryEnvironment, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    everything, results = await set_up(env)
    key = results if "hidden" in path else everything
    await env.get(COUNTS, everything)  # loads the secrets of positions, without which no read is answered directly
    through_asgi = await env.get(path, key)
    assert through_asgi.status_code == status
    monkeypatch.delattr(VoteUpdates, "__call__")
    async with served(env.app) as server, http_client(base_url=server.url) as client:
        directly = await client.get(path, headers={"authorization": f"Bearer {key}"})
        assert comparable(directly) == comparable(through_asgi)
        assert directly.headers["cache-control"] == through_asgi.headers["cache-control"]


async def test_an_unchanged_record_is_304_and_a_change_shows_in_the_next_read(env: QueryEnvironment) -> None:
    key, _ = await set_up(env)
    first = await env.get(COUNTS, key)
    async with served(env.app) as server, http_client(base_url=server.url) as client:
        condition = {"if-none-match": first.headers["etag"]}
        headers = {"authorization": f"Bearer {key}"} | condition
        unchanged = await client.get(COUNTS, headers=headers)
        assert unchanged.status_code == 304
        assert comparable(unchanged) == comparable(await env.get(COUNTS, key, **condition))
        await env.production.enter("song", "b")
        assert set((await client.get(COUNTS, headers=headers)).json()["participants"]) == {"a", "b"}


async def test_a_position_is_waited_for(env: QueryEnvironment) -> None:
    key, _ = await set_up(env)
    async with served(env.app) as server, http_client(base_url=server.url) as client:
        position = await env.vote("a", 3, voter="bob")
        path = f"{COUNTS}?min_position={position}"
        assert (await client.get(path, headers={"authorization": f"Bearer {key}"})).json()["count"] == 5
