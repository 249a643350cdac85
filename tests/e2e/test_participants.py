"""Participants over HTTP: keys, status, and the effect of the status on votes and results."""

import asyncio

import httpx
import pytest

from tests.support.voting import Api, Contest, code, running


async def set_status(contest: Contest, participant: int, status: str) -> httpx.Response:
    path = f"/participants/{contest.participants[participant]}"
    return await contest.client.patch(path, json={"status": status})


async def results(contest: Contest) -> dict[str, int]:
    answer = await contest.client.get(f"/public{contest.path}/results", headers={"Authorization": ""})
    return {entry["participant_key"]: entry["count"] for entry in answer.json()["participants"]}


async def test_running_numbers_have_no_gaps_and_no_doubles_under_concurrency(api: Api) -> None:
    contest = await api.contest(0)
    keys = await asyncio.gather(*(api.participant(contest, title=f"P{number}") for number in range(40)))
    answers = await asyncio.gather(*(api.client.get(f"/participants/{key}") for key in keys))
    assert sorted(answer.json()["running_number"] for answer in answers) == list(range(1, 41))


@pytest.mark.parametrize(
    ("before", "after", "moves"),
    [
        ("pending", "approved", True),
        ("pending", "rejected", True),
        ("approved", "rejected", True),
        ("rejected", "approved", True),
        ("approved", "pending", False),
        ("rejected", "pending", False),
    ],
)
async def test_a_status_moves_but_never_back_to_pending(api: Api, before: str, after: str, moves: bool) -> None:
    contest = await api.contest(0)
    contest.participants.append(await api.participant(contest, title="P", status=before))
    answer = await set_status(contest, 0, after)
    assert code(answer) == ((200, None) if moves else (409, "status_transition"))
    shown = (await api.client.get(f"/participants/{contest.participants[0]}")).json()["status"]
    assert shown == (after if moves else before)


async def test_a_status_cannot_be_cleared(api: Api) -> None:
    contest = await api.contest(0)
    path = f"/participants/{await api.participant(contest, title='P', status='pending')}"
    refused = await api.client.patch(path, json={"status": None})
    assert code(refused) == (422, "validation_failed")
    assert refused.json()["errors"][0]["pointer"] == "/status"
    assert (await api.client.get(path)).json()["status"] == "pending"


async def test_the_contest_says_what_new_participants_are(api: Api) -> None:
    contest = await api.contest(1, running(participant_default_status="rejected"))
    assert (await api.client.get(f"/participants/{contest.participants[0]}")).json()["status"] == "rejected"
    assert code(await api.client.post(f"{contest.path}/participants", json={"status": "gone"})) == (
        422,
        "validation_failed",
    )


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


async def test_a_pending_participant_appears_in_no_result(api: Api) -> None:
    contest = await api.contest(1)
    await api.participant(contest, title="Later", status="pending")
    assert list((await contest.counts())["participants"]) == contest.participants
    assert list(await results(contest)) == contest.participants
