"""Removal of votes by their voters, over HTTP."""

import asyncio
from collections import Counter

import pytest

from tests.support.eventually import eventually
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


@pytest.mark.secured
async def test_a_removed_id_stays_used_and_removing_it_again_is_fine(api: Api) -> None:
    contest = await api.contest()
    vote = await contest.vote(vote_id="once")
    removed = await contest.remove(vote)
    assert (await contest.remove(vote)).status_code == 204
    again = await contest.vote(vote_id="once")
    assert (again.status_code, again.json()) == (200, vote.json())
    assert (await contest.counts(removed.headers["tally-position"]))["count"] == 0


@pytest.mark.clustered
async def test_uniques_follow_the_votes_that_are_left(api: Api) -> None:
    contest = await api.contest(
        2, free={"max_participant": 2}, is_anonymous_voting_enabled=True, paid={"is_anonymous": True}
    )
    a = [await contest.vote(0, anonymous_id="nobody") for _ in range(2)]
    b = await contest.vote(1, anonymous_id="nobody")
    paid = await contest.vote(0, anonymous_id="nobody", source="c-paid")

    async def voters_after(vote_id: str) -> list[int]:
        removed = await contest.remove(vote_id, anonymous_id="nobody")
        counts = await contest.counts(removed.headers["tally-position"])
        assert counts["unique_voter_count"] == counts["anonymous_voter_count"]
        participants = [counts["participants"][key] for key in contest.participants]
        free = participants[0]["vote_sources"][0]["unique_voter_count"]
        return [counts["unique_voter_count"], *(each["unique_voter_count"] for each in participants), free]

    assert paid.status_code == 201
    assert await voters_after(a[0].json()["vote_id"]) == [1, 1, 1, 1]
    assert await voters_after(b.json()["vote_id"]) == [1, 1, 0, 1]
    assert await voters_after(a[1].json()["vote_id"]) == [1, 1, 0, 0]


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


@pytest.mark.clustered
async def test_removals_and_votes_racing_each_other_never_exceed_the_limit(api: Api) -> None:
    contest = await api.contest(1, free={"max_participant": 2})
    votes = [await contest.vote(0) for _ in range(2)]

    async def vote() -> tuple[int, str | None]:
        return code(await contest.vote(0))

    async def remove(number: int) -> tuple[int, str | None]:
        return (await contest.remove(votes[number])).status_code, None

    outcomes = await asyncio.gather(*(remove(i % 2) if i % 3 else vote() for i in range(60)))
    tally = Counter(outcomes)
    assert set(tally) <= {(204, None), (201, None), (409, "participant_limit_reached")}
    await contest.vote(0)
    used = (await contest.allowance())["contest"]["used"]
    assert used <= 2

    async def all_are_counted() -> bool:
        return bool((await contest.counts())["count"] == used)

    await eventually(all_are_counted)


async def test_a_vote_may_be_removed_at_once_after_it_was_accepted(api: Api) -> None:
    contest = await api.contest(1)
    removals = []
    for number in range(20):
        vote = await contest.vote(0, f"v{number}")
        removals.append(await contest.remove(vote, f"v{number}"))
    assert {removed.status_code for removed in removals} == {204}
    assert (await contest.counts_with(*removals))["count"] == 0


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_removed_vote_makes_room_for_its_address(api: Api) -> None:
    contest = await api.contest(ip_restriction_per_participant=1)
    vote = await contest.vote(0, "anna", ip="198.51.100.1")
    assert code(await contest.vote(0, "bert", ip="198.51.100.1")) == (409, "ip_limit_reached")
    assert (await contest.remove(vote, "anna")).status_code == 204
    assert (await contest.vote(0, "bert", ip="198.51.100.1")).status_code == 201
