"""A voter's own votes: found again with their ids, with what they chose, and whether they count."""

from __future__ import annotations

from typing import Any

from tests.support.clients.http_clients import ok
from tests.support.clients.voting import Api, Contest, code, running
from tests.support.eventually import eventually

UNLIMITED = {"max_contest": -1, "max_participant": -1}


async def page(contest: Contest, voter: str = "v1", **query: Any) -> dict[str, Any]:
    return ok(await contest.client.get(f"{contest.path}/votes", params=query or {"voter_id": voter}))


async def votes(contest: Contest, count: int, voter: str = "v1") -> list[dict[str, Any]]:
    """Return the voter's votes when they are so many."""

    async def look() -> list[dict[str, Any]] | None:
        data: list[dict[str, Any]] = (await page(contest, voter, voter_id=voter, limit=100))["data"]
        return data if len(data) == count else None

    if count == 0:
        return list((await page(contest, voter))["data"])
    found = await eventually(look)
    assert found is not None
    return found


async def cast(contest: Contest, participant: int = 0, voter: str = "v1", **members: Any) -> dict[str, Any]:
    return ok(await contest.vote(participant, voter, **members), 201)


async def test_lost_ids_are_found_again_newest_first(api: Api) -> None:
    contest = await api.contest(free=UNLIMITED)
    made = [await cast(contest, number % 2) for number in range(3)]
    await cast(contest, voter="another")
    found = await votes(contest, 3)
    assert [vote["vote_id"] for vote in found] == [vote["vote_id"] for vote in reversed(made)]
    first = found[-1]
    assert first == await contest.status(made[0]["vote_id"])
    assert (first["status"], first["counts"], first["reason"]) == ("counted", True, None)
    same = ("accepted_at", "choices", "receipt")
    assert [first[name] for name in same] == [made[0][name] for name in same]
    assert (first["rating"], first["positions"]) == (None, None)
    assert await votes(contest, 0, "nobody") == []


async def test_a_vote_that_was_found_can_be_taken_back_and_says_why_it_does_not_count(api: Api) -> None:
    contest = await api.contest(free=UNLIMITED)
    await cast(contest, 0)
    await cast(contest, 1)
    newest, oldest = await votes(contest, 2)
    assert (await contest.remove(oldest["vote_id"])).status_code == 204
    await api.client.patch(f"/participants/{contest.participants[1]}", json={"status": "rejected"})

    async def is_removed() -> bool:
        return (await votes(contest, 2))[1]["status"] == "removed"

    await eventually(is_removed)
    newest, oldest = await votes(contest, 2)
    assert (oldest["counts"], oldest["reason"]) == (False, "It was removed by its voter or with its purchase.")
    assert (newest["status"], newest["counts"]) == ("counted", False)
    assert "rejected" in newest["reason"]


async def test_ratings_and_ballots_are_shown_as_they_were_sent(api: Api) -> None:
    rules = {"max_rating": 10, "step_size": "fraction", "sub_rating_configs": [{"sub_rating_id": "look"}]}
    rated = await api.contest(body=running(rating=rules) | {"contest_type": "rating"})
    assert (await rated.rate(0, 4.5, sub_ratings={"look": 7})).status_code == 201
    [vote] = await votes(rated, 1)
    assert vote["rating"] == {"value": 4.5, "sub_ratings": {"look": 7}}
    assert vote == await rated.status(vote["vote_id"])
    positions = {"positions": [{"id": str(at), "votes": 1} for at in (1, 2, 3)]}
    ordered = await api.contest(body=running(ordering=positions) | {"contest_type": "ordering"})
    chosen = {"1": ordered.participants[1], "3": ordered.participants[0]}
    sent = await ordered.client.post(f"{ordered.path}/votes", json={"voter_id": "v1", "positions": chosen})
    assert sent.status_code == 201, sent.text
    [vote] = await votes(ordered, 1)
    assert (vote["positions"], vote["rating"]) == (chosen, None)
    assert vote == await ordered.status(vote["vote_id"])


async def test_voters_of_either_kind_see_only_their_own(api: Api) -> None:
    contest = await api.contest(is_anonymous_voting_enabled=True)
    await cast(contest, voter="x")
    await votes(contest, 1, "x")
    assert (await page(contest, anonymous_id="x"))["data"] == []
    for query in ({}, {"voter_id": "x", "anonymous_id": "x"}, {"voter_id": ""}):
        answer = await contest.client.get(f"{contest.path}/votes", params=query)
        assert code(answer) == (422, "validation_failed")
