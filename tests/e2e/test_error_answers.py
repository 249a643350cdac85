"""The error table over HTTP: permissions, malformed requests, and the form of every error."""

from libs.local_stack.supervisor import Supervisor
from tests.support.stack_keys import key_with
from tests.support.voting import Api, code

JSON = {"content-type": "application/json"}


async def test_a_key_needs_the_permission_and_the_answer_names_it(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    reader = await key_with(stack, "results:read")
    answer = await contest.vote(0, headers=reader)
    assert (code(answer), answer.json()["permission"]) == ((403, "forbidden"), "votes:write")
    voting = await key_with(stack, "votes:write")
    assert (await contest.vote(0, headers=voting)).status_code == 201
    answer = await contest.vote(0, headers=voting, source="c-paid")
    assert (code(answer), answer.json()["permission"]) == ((403, "forbidden"), "purchases:write")
    vote = {"participant_key": contest.participants[0], "voter_id": "p"}
    votes = {"votes": [vote | {"source": "c-paid"}, vote]}
    answer = await api.client.post(f"{contest.path}/votes/batch", json=votes, headers=voting)
    assert [item["status"] for item in answer.json()["results"]] == [403, 201]


async def test_the_body_is_checked_before_the_contest_is_looked_for(api: Api) -> None:
    assert code(await api.client.post("/contests/none/votes", json={})) == (422, "validation_failed")
    vote = {"participant_key": "p", "voter_id": "v"}
    assert code(await api.client.post("/contests/none/votes", json=vote)) == (404, "not_found")


async def test_bodies_that_are_no_json_object_within_a_megabyte_are_refused(api: Api) -> None:
    contest = await api.contest()
    path = f"{contest.path}/votes"

    async def post(body: bytes, headers: dict[str, str] = JSON) -> tuple[int, str | None]:
        return code(await api.client.post(path, content=body, headers=headers))

    assert await post(b'{"participant_key":') == (400, "malformed_json")
    assert await post(b"") == (400, "malformed_json")
    assert await post(b"\xff\xfe") == (400, "malformed_json")
    assert await post(b"[]") == (422, "validation_failed")
    assert await post(b"{}", {"content-type": "text/plain"}) == (415, "unsupported_media_type")
    assert await post(b" " * ((1 << 20) + 1)) == (413, "payload_too_large")
