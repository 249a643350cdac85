"""Counts through the gateway: in records, and in public results."""

from typing import Any

import httpx
import pytest

from tests.support.clients.voting import Api, Contest, code
from tests.support.eventually import eventually


async def read(contest: Contest, **headers: str) -> httpx.Response:
    return await contest.client.get(f"/participants/{contest.participants[0]}", headers=headers)


@pytest.mark.secured
@pytest.mark.clustered
async def test_reads_of_a_participant_show_its_votes_which_stand_in_the_way_of_no_write(api: Api) -> None:
    contest = await api.contest()
    first = await read(contest)
    tag, key = first.headers["etag"], contest.participants[0]
    assert first.json()["vote_count"] == 0
    assert (await read(contest, **{"if-none-match": tag})).status_code == 304
    await contest.counts_with(*[await contest.vote(0, voter) for voter in ("ann", "bob")])
    voted = await read(contest, **{"if-none-match": tag})
    record = voted.json()
    assert (voted.status_code, record["vote_count"], record["rater_count"]) == (200, 2, 2)
    listed = (await api.client.get(f"{contest.path}/participants")).json()["data"]
    assert [entry["vote_count"] for entry in listed] == [0, 2]
    where = f"/participants/{key}"
    patched = await api.client.patch(where, json={"title": "Ann"}, headers={"if-match": tag})
    assert (patched.status_code, patched.json()["title"], patched.json()["vote_count"]) == (200, "Ann", 2)
    assert (await read(contest)).json() == patched.json()
    refused = await api.client.patch(where, json={"title": "Bob"}, headers={"if-match": tag})
    assert code(refused) == (412, "version_conflict")
    last = {"if-match": patched.headers["etag"]}
    assert (await api.client.delete(where, headers=last)).status_code == 204


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_voters_receipt_opens_the_public_results(api: Api, anonymous: httpx.AsyncClient) -> None:
    contest, other = [await api.contest(vote_visibility="hidden_until_vote") for _ in range(2)]
    receipt = (await contest.vote()).json()["receipt"]

    async def count(of: Contest, **query: str) -> Any:
        return (await anonymous.get(f"/public{of.path}/results", params=query)).json()["count"]

    assert await count(contest) is None
    assert await count(other, receipt=receipt) is None

    async def opened() -> bool:
        return bool(await count(contest, receipt=receipt) == 1)

    await eventually(opened)
