"""Batches: each item has its own result, in order, independent of the others."""

from collections.abc import Sequence
from typing import Any

import httpx
import orjson

from tests.support.clients.voting import Api, Contest, code


async def batch(contest: Contest, votes: Sequence[object], **options: Any) -> httpx.Response:
    return await contest.client.post(f"{contest.path}/votes/batch", json={"votes": votes}, **options)


def votes_of(contest: Contest, *voters: str, **members: Any) -> list[dict[str, Any]]:
    return [{"participant_key": contest.participants[0], "voter_id": voter} | members for voter in voters]


async def test_items_are_answered_in_order_and_a_bad_one_spoils_no_other(api: Api) -> None:
    contest = await api.contest()
    good, again = votes_of(contest, "a"), votes_of(contest, "a")
    bad = [{"vote_id": "odd", "participant_key": contest.participants[0]}, "no object", {"count": "1"}]
    stranger = {"participant_key": "nobody", "voter_id": "b"}
    answer = await batch(contest, [*good, *bad, stranger, *again, *votes_of(contest, "c", vote_id="mine")])
    assert answer.status_code == 200
    results = answer.json()["results"]
    assert [item["status"] for item in results] == [201, 422, 422, 422, 404, 409, 201]
    assert [item.get("code") for item in results[1:6]] == [
        *["validation_failed"] * 3,
        "not_found",
        "participant_limit_reached",
    ]
    assert results[1]["vote_id"] == "odd"
    assert results[6]["vote_id"] == "mine"
    assert results[6]["status"] == 201
    counts = await contest.counts(answer.headers["tally-position"])
    assert counts["count"] == 2


async def test_ndjson_skips_blank_lines_and_judges_each_line(api: Api) -> None:
    contest = await api.contest()
    lines = [orjson.dumps(vote) for vote in votes_of(contest, "a", "b")]
    body = b"\n".join([lines[0], b"", b"{broken", b"  ", lines[1], b""])
    answer = await contest.client.post(
        f"{contest.path}/votes/batch", content=body, headers={"content-type": "application/x-ndjson"}
    )
    assert [item["status"] for item in answer.json()["results"]] == [201, 400, 201]


async def test_a_batch_that_is_no_batch_is_refused_whole(api: Api) -> None:
    contest = await api.contest()
    path = f"{contest.path}/votes/batch"
    assert code(await api.client.post(path, json=[])) == (422, "validation_failed")
    assert code(await api.client.post(path, json={"votes": {}})) == (422, "validation_failed")
    assert code(await api.client.post(path, json={"votes": [], "x": 1})) == (422, "validation_failed")
    assert code(await api.client.post(path, content=b"[", headers=JSON)) == (400, "malformed_json")
    assert code(await api.client.post(path, content=b"x", headers=TEXT)) == (415, "unsupported_media_type")
    assert code(await api.client.post("/contests/none/votes/batch", json={"votes": []})) == (404, "not_found")


JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain"}


async def test_a_batch_sent_again_with_its_idempotency_key_counts_once(api: Api) -> None:
    contest = await api.contest(free={"max_participant": -1})
    votes = [{"participant_key": contest.participants[0], "voter_id": f"v{number % 3}"} for number in range(9)]
    headers = {"Idempotency-Key": "batch 1"}
    path = f"{contest.path}/votes/batch"
    first, again = [await api.client.post(path, json={"votes": votes}, headers=headers) for _ in range(2)]
    assert [item["status"] for item in first.json()["results"]] == [201] * 9
    assert [item["status"] for item in again.json()["results"]] == [200] * 9
    ids = [[item["vote_id"] for item in answer.json()["results"]] for answer in (first, again)]
    assert ids[0] == ids[1]
    assert (await contest.counts(first.headers["tally-position"]))["count"] == 9


async def test_a_shorter_or_reordered_repetition_of_a_batch_counts_nothing_twice(api: Api) -> None:
    """A client sends what failed, and that only, under the same key."""
    contest = await api.contest(2, free={"max_participant": -1}, is_anonymous_voting_enabled=True)
    one, other = contest.participants[:2]
    votes = [
        *votes_of(contest, "a", "b", "a"),
        {"participant_key": other, "voter_id": "a"},
        {"participant_key": one, "anonymous_id": "a"},
        {"participant_key": one, "voter_id": "a", "vote_id": "mine"},
        {"participant_key": one, "voter_id": "a", "platform": "ios", "ip": "192.0.2.1"},
    ]
    headers = {"Idempotency-Key": "batch 1"}
    first = (await batch(contest, votes, headers=headers)).json()["results"]
    assert [item["status"] for item in first] == [201] * 7
    ids = [item["vote_id"] for item in first]
    assert len(set(ids)) == 7
    for kept in ([1], [4, 3, 1], [5, 3, 0, 1, 2, 6, 4], [0, 5, 2]):
        again = (await batch(contest, [votes[at] for at in kept], headers=headers)).json()["results"]
        assert [(item["status"], item["vote_id"]) for item in again] == [(200, ids[at]) for at in kept]
    changed = await batch(contest, [votes[1] | {"count": 2}], headers=headers)
    assert changed.json()["results"][0]["status"] == 201
    elsewhere = await batch(contest, votes[1:2], headers={"Idempotency-Key": "batch 2"})
    assert elsewhere.json()["results"][0]["status"] == 201
    assert (await contest.counts(elsewhere.headers["tally-position"]))["count"] == 10
