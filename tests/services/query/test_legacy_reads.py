"""The legacy reads over HTTP: permissions and pages."""

from typing import Any

import httpx

from tests.services.query.query_environment import QueryEnvironment, contest


async def song(env: QueryEnvironment, participants: str = "ab", **config: Any) -> str:
    await env.production.create("contests", "song", contest(**config))
    for participant in participants:
        await env.production.enter("song", participant)
    return await env.production.key()


def refusal(response: httpx.Response) -> str:
    """The message of a 400 in the legacy form."""
    assert response.status_code == 400, response.text
    assert set(response.json()) == {"error"}
    assert set(response.json()["error"]) == {"code", "message"}
    return str(response.json()["error"]["message"])


async def test_a_key_needs_the_permission_and_the_answer_names_it(env: QueryEnvironment) -> None:
    await song(env)
    blind = await env.production.key(permissions=("votes:write",))
    assert "content:read" in refusal(await env.legacy("/legacy/contests/song", blind))


async def test_a_contests_participants_come_in_pages_of_twenty_with_their_status(env: QueryEnvironment) -> None:
    key = await song(env, "")
    for number in range(21):
        await env.production.enter("song", f"p{number}")
    await env.production.enter("song", "last", status="pending")
    first = (await env.legacy("/legacy/contests/song/participants", key)).json()
    rest = (await env.legacy(f"/legacy/contests/song/participants?next={first['next']}", key)).json()
    assert [len(first["participants"]), len(rest["participants"])] == [20, 2]
    assert (first["participants"][0]["status"], first["participants"][1]["status"]) == ("pending", "approved")
    assert first["participants"][0]["running_number"] == 22
    assert "next" not in rest
    assert refusal(await env.legacy("/legacy/contests/song/participants?next=garbage", key))
    assert refusal(await env.legacy("/legacy/participants/nobody", key)) == "participant not found"
