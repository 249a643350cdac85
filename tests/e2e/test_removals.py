"""Removal of votes by their voters, over HTTP."""

import asyncio

import pytest

from tests.support.voting import Api, code, hours_from_now


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_removed_vote_counts_no_more_and_its_allowance_is_back(api: Api) -> None:
    contest = await api.contest()
    vote = await contest.vote(0, "anna")
    removed = await contest.remove(vote, "anna")
    assert (removed.status_code, removed.content) == (204, b"")
    counts = await contest.counts(removed.headers["tally-position"])
    assert (counts["count"], counts["unique_voter_count"]) == (0, 0)
    assert (await contest.status(vote, "anna"))["status"] == "removed"
    assert (await contest.allowance("anna"))["contest"]["used"] == 0
    second = await contest.vote(0, "anna")
    assert second.status_code == 201
    counts = await contest.counts(second.headers["tally-position"])
    assert (counts["count"], counts["unique_voter_count"]) == (1, 1)


async def test_what_cannot_be_removed_says_why(api: Api) -> None:
    contest = await api.contest()
    assert code(await contest.remove("never")) == (404, "not_found")
    assert code(await contest.remove("never", **{"voter_id": "a", "anonymous_id": "b"})) == (
        422,
        "validation_failed",
    )
    assert code(await contest.remove("never", **{"x": "y"})) == (422, "validation_failed")
    vote = await contest.vote(0)
    assert code(await contest.remove(vote, "somebody else")) == (404, "not_found")
    paid = await contest.vote(0, source="c-paid")
    assert code(await contest.remove(paid)) == (403, "vote_removal_not_allowed")
    await contest.change(is_vote_removal_allowed=False)
    assert code(await contest.remove(vote)) == (403, "vote_removal_not_allowed")
    await contest.change(is_vote_removal_allowed=True, start=hours_from_now(1), end=hours_from_now(2))
    assert code(await contest.remove(vote)) == (409, "contest_not_running")
    counts = await contest.counts(paid.headers["tally-position"])
    assert counts["count"] == 2


@pytest.mark.clustered
async def test_the_same_removal_many_times_at_once_removes_once(api: Api) -> None:
    contest = await api.contest(free={"max_participant": 3})
    kept = await contest.vote(0)
    vote = await contest.vote(0)
    answers = await asyncio.gather(*(contest.remove(vote) for _ in range(30)))
    assert {answer.status_code for answer in answers} == {204}
    counts = await contest.counts_with(*(answer for answer in answers if "tally-position" in answer.headers))
    assert (counts["count"], counts["unique_voter_count"]) == (1, 1)
    assert (await contest.allowance())["contest"]["used"] == 1
    assert (await contest.status(kept))["status"] == "counted"
