"""Participants over HTTP: keys, status, and the effect of the status on votes and results."""

import httpx
import pytest

from tests.support.voting import Api, Contest, code


async def set_status(contest: Contest, participant: int, status: str) -> httpx.Response:
    path = f"/participants/{contest.participants[participant]}"
    return await contest.client.patch(path, json={"status": status})


async def results(contest: Contest) -> dict[str, int]:
    answer = await contest.client.get(f"/public{contest.path}/results", headers={"Authorization": ""})
    return {entry["participant_key"]: entry["count"] for entry in answer.json()["participants"]}


async def test_a_status_cannot_be_cleared(api: Api) -> None:
    contest = await api.contest(0)
    path = f"/participants/{await api.participant(contest, title='P', status='pending')}"
    refused = await api.client.patch(path, json={"status": None})
    assert code(refused) == (422, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == "/status"
    assert (await api.client.get(path)).json()["status"] == "pending"


@pytest.mark.secured
async def test_only_approved_participants_take_votes_from_the_answer_to_the_patch_on(api: Api) -> None:
    contest = await api.contest(1)
    for status, taken in (("rejected", False), ("approved", True), ("rejected", False)):
        assert (await set_status(contest, 0, status)).status_code == 200
        answer = await contest.vote(0, f"voter while {status}")
        assert code(answer) == ((201, None) if taken else (409, "participant_not_votable"))
    assert code(await contest.vote("nobody")) == (404, "not_found")


@pytest.mark.secured
async def test_a_rejected_participants_votes_leave_the_results_and_come_back(api: Api) -> None:
    contest = await api.contest(2)
    votes = await contest.vote(0, "anna"), await contest.vote(1, "bert")
    assert (await contest.counts_with(*votes))["count"] == 2
    kept, gone = contest.participants
    await set_status(contest, 1, "rejected")
    counts = await contest.counts()
    assert (counts["count"], set(counts["participants"])) == (1, {kept})
    assert sum(source["count"] for source in counts["total_vote_sources"]) == 1
    assert await results(contest) == {kept: 1}
    await set_status(contest, 1, "approved")
    counts = await contest.counts()
    assert (counts["count"], counts["participants"][gone]["count"]) == (2, 1)
    assert (await results(contest))[gone] == 1
