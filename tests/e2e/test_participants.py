"""Participants over HTTP: keys, status, and the effect of the status on votes and results."""

import httpx
import pytest

from tests.support.voting import Api, Contest, code


async def set_status(contest: Contest, participant: int, status: str) -> httpx.Response:
    path = f"/participants/{contest.participants[participant]}"
    return await contest.client.patch(path, json={"status": status})


@pytest.mark.secured
async def test_only_approved_participants_take_votes_from_the_answer_to_the_patch_on(api: Api) -> None:
    contest = await api.contest(1)
    for status, taken in (("rejected", False), ("approved", True), ("rejected", False)):
        assert (await set_status(contest, 0, status)).status_code == 200
        answer = await contest.vote(0, f"voter while {status}")
        assert code(answer) == ((201, None) if taken else (409, "participant_not_votable"))
    assert code(await contest.vote("nobody")) == (404, "not_found")
