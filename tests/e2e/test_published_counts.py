"""Counts through the gateway: in records, and in public results."""

from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.http_clients import http_client
from tests.support.voting import Api, Contest, code


async def votes(contest: Contest, *voters: str) -> None:
    """One vote of each for the first participant, counted."""
    for voter in voters:
        answer = await contest.vote(0, voter)
        assert answer.status_code == 201, answer.text
        await contest.counts(answer.headers["tally-position"])


async def read(contest: Contest, **headers: str) -> httpx.Response:
    return await contest.client.get(f"/participants/{contest.participants[0]}", headers=headers)


@pytest.mark.secured
@pytest.mark.clustered
async def test_reads_of_participants_show_their_votes(api: Api) -> None:
    contest = await api.contest()
    assert (await read(contest)).json()["vote_count"] == 0
    await votes(contest, "ann", "bob")
    record = (await read(contest)).json()
    assert (record["vote_count"], record["rater_count"]) == (2, 2)
    listed = (await api.client.get(f"{contest.path}/participants")).json()["data"]
    assert [entry["vote_count"] for entry in listed] == [0, 2]
    patched = (await api.client.patch(f"/participants/{record['key']}", json={"title": "Ann"})).json()
    assert (patched["title"], patched["vote_count"]) == ("Ann", 2)
    assert (await read(contest)).json() == patched


@pytest.mark.clustered
async def test_a_vote_changes_the_tag_of_a_read_and_does_not_stand_in_the_way_of_a_write(api: Api) -> None:
    contest = await api.contest()
    first = await read(contest)
    tag = first.headers["etag"]
    assert (await read(contest, **{"if-none-match": tag})).status_code == 304
    await votes(contest, "ann")
    assert (await read(contest, **{"if-none-match": tag})).status_code == 200
    where = f"/participants/{contest.participants[0]}"
    changed = await api.client.patch(where, json={"title": "Ann"}, headers={"if-match": tag})
    assert changed.status_code == 200
    refused = await api.client.patch(where, json={"title": "Bob"}, headers={"if-match": tag})
    assert code(refused) == (412, "version_conflict")
    last = {"if-match": changed.headers["etag"]}
    assert (await api.client.delete(where, headers=last)).status_code == 204


@pytest.mark.secured
@pytest.mark.clustered
async def test_a_voters_receipt_opens_the_public_results(api: Api) -> None:
    contest = await api.contest(vote_visibility="hidden_until_vote")
    other = await api.contest(vote_visibility="hidden_until_vote")
    receipt = (await contest.vote()).json()["receipt"]
    async with http_client(base_url=api.client.base_url) as anonymous:

        async def count(of: Contest, **query: str) -> Any:
            return (await anonymous.get(f"/public{of.path}/results", params=query)).json()["count"]

        assert await count(contest) is None
        assert await count(other, receipt=receipt) is None

        async def opened() -> bool:
            return bool(await count(contest, receipt=receipt) == 1)

        await eventually(opened)
