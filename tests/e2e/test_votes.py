"""Votes over HTTP on the whole service: accepted votes count once, rejected ones never, removed ones no more."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable

import httpx
import pytest

from tests.support.clients.voting import Api, Contest, code, hours_from_now, running
from tests.support.eventually import eventually


async def test_an_accepted_vote_is_counted_and_can_be_read_at_its_position(api: Api) -> None:
    contest = await api.contest()
    answer = await contest.vote(0, "anna", platform="ios")
    assert answer.status_code == 201
    body = answer.json()
    assert body["status"] == "accepted"
    assert body["contest_key"] == contest.key
    assert body["choices"] == [{"participant_key": contest.participants[0], "count": 1}]
    assert body["remaining"] == {"participant": 0, "contest": None}
    assert body["next_free_vote_at"] is None
    assert answer.headers["location"] == f"{contest.path}/votes/{body['vote_id']}"
    counts = await contest.counts(answer.headers["tally-position"])
    assert counts["count"] == counts["unique_voter_count"] == 1
    assert counts["participants"][contest.participants[0]]["count"] == 1


async def test_the_header_is_the_vote_id_and_may_not_contradict_the_body(api: Api) -> None:
    contest = await api.contest()
    answer = await contest.vote(0, headers={"Idempotency-Key": "h1"})
    assert (answer.status_code, answer.json()["vote_id"]) == (201, "h1")
    answer = await contest.vote(0, headers={"Idempotency-Key": "h1"}, vote_id="b1")
    assert code(answer) == (422, "idempotency_key_reused")
    assert code(await contest.vote(0, headers={"Idempotency-Key": "no spaces"})) == (422, "validation_failed")


async def test_no_vote_is_named_as_clients_name_another_address(api: Api) -> None:
    contest = await api.contest()
    for vote_id in (".", ".."):
        answer = await contest.vote(0, vote_id=vote_id)
        assert (code(answer), answer.json()["errors"][0]["pointer"]) == ((422, "validation_failed"), "/vote_id")
        answer = await contest.vote(0, headers={"Idempotency-Key": vote_id})
        assert code(answer) == (422, "validation_failed")
    assert (await contest.vote(0, vote_id="...")).status_code == 201


async def test_200_concurrent_votes_of_one_voter_with_a_limit_of_3_give_exactly_3(api: Api) -> None:
    contest = await api.contest(free={"max_participant": 3})
    answers = await asyncio.gather(*(contest.vote(0, "anna") for _ in range(200)))
    assert Counter(map(code, answers)) == {(201, None): 3, (409, "participant_limit_reached"): 197}
    refused = next(answer.json() for answer in answers if answer.status_code == 409)
    assert (refused["limit"], refused["used"]) == (3, 3)
    assert refused["vote_id"]
    counted = await contest.counts_with(*(answer for answer in answers if answer.status_code == 201))
    assert counted["count"] == 3


async def test_a_repeated_vote_is_answered_even_after_the_end(api: Api) -> None:
    contest = await api.contest()
    first = await contest.vote(0, vote_id="once")
    assert (await contest.change(end=hours_from_now(-0.1))).status_code == 200
    assert code(await contest.vote(0, "bert")) == (409, "contest_not_running")
    again = await contest.vote(0, vote_id="once")
    assert (again.status_code, again.json()) == (200, first.json())


async def test_a_status_says_that_votes_for_a_rejected_or_deleted_participant_do_not_count(api: Api) -> None:
    contest = await api.contest()
    votes = [await contest.vote(number, f"v{number}") for number in (0, 1)]
    for number, vote in enumerate(votes):
        await eventually(counted_of(contest, vote, f"v{number}"))
    assert (await contest.status(votes[0], "v0")) | {"counts": True, "reason": None} == await contest.status(
        votes[0], "v0"
    )
    first, second = (f"/participants/{key}" for key in contest.participants)
    assert (await api.client.patch(first, json={"status": "rejected"})).status_code == 200
    found = await contest.status(votes[0], "v0")
    assert (found["status"], found["counts"]) == ("counted", False)
    assert found["reason"] == f"Votes do not count now for: {contest.participants[0]} (rejected)."
    assert (await api.client.patch(first, json={"status": "approved"})).status_code == 200
    assert (await contest.status(votes[0], "v0"))["counts"] is True
    assert (await api.client.delete(second)).status_code == 204
    found = await contest.status(votes[1], "v1")
    assert (found["counts"], found["reason"]) == (
        False,
        f"Votes do not count now for: {contest.participants[1]} (deleted).",
    )


def counted_of(contest: Contest, vote: httpx.Response, voter: str) -> Callable[[], Awaitable[bool]]:
    async def counted() -> bool:
        return bool((await contest.status(vote, voter))["status"] == "counted")

    return counted


async def test_a_vote_shows_its_status_and_a_voter_an_allowance(api: Api) -> None:
    contest = await api.contest(free={"max_participant": 2, "max_contest": 3})
    vote = await contest.vote(0, "anna")
    await eventually(counted_of(contest, vote, "anna"))
    status = f"{contest.path}/votes/{vote.json()['vote_id']}"
    assert code(await api.client.get(status, params={"voter_id": "bert"})) == (404, "not_found")
    assert code(await api.client.get(status)) == (422, "validation_failed")
    free = await contest.allowance("anna")
    assert free["contest"] == {"used": 1, "limit": 3, "remaining": 2}
    assert [row["remaining"] for row in free["participants"]] == [1, 2]
    stranger = (await api.client.get(f"{contest.path}/allowance", params={"anonymous_id": "never"})).json()
    assert {row["contest"]["used"] for row in stranger["sources"]} == {0}


VOTE = b'{"participant_key":"%s","voter_id":"direct"}'


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (VOTE, {}),
        (b'{"participant_key":"%s","voter_id":"direct","source":"c-paid","count":3}', {}),
        (b'{"participant_key":"%s","voter_id":"direct","vote_id":"k2"}', {"Idempotency-Key": "k3"}),
        (b'{"participant_key":"%s","anonymous_id":"direct"}', {}),
        (b'{"participant_key":"%s","voter_id":"direct","count":0}', {}),
        (b'{"participant_key":"%s","voter_id":"direct","count":9,"vote_id":"k4"}', {}),
        (b'{"participant_key":"%s"', {}),
        (b'{"participant_key":"%s-unknown","voter_id":"direct","vote_id":"k5"}', {}),
        (VOTE, {"Content-Type": "text/plain"}),
        (VOTE, {"Authorization": "Bearer unknown"}),
    ],
)
async def test_a_vote_is_answered_alike_by_the_direct_route_and_through_asgi(
    api: Api, body: bytes, headers: dict[str, str]
) -> None:
    contest = await api.contest(participants=3)
    await contest.vote(2, "another")  # the contest is cached
    answers = []
    # only a path without a slash at its end is served directly
    for participant, path in zip(contest.participants, ("votes", "votes/"), strict=False):
        answer = await api.client.post(
            f"{contest.path}/{path}",
            content=body.replace(b"%s", participant.encode()),
            headers={"Content-Type": "application/json"} | headers,
        )
        members = json.loads(answer.text.replace(participant, "participant"))
        for name in ("accepted_at", "receipt", "request_id", "vote_id"):
            if name in members:
                members[name] = type(members[name])
        answers.append((answer.status_code, members, sorted(answer.headers)))
    assert answers[0] == answers[1]


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


ADDRESS = "198.51.100.20"


@pytest.mark.secured
async def test_a_ballot_is_one_vote_for_each_of_its_participants_or_for_none(api: Api) -> None:
    positions = {"positions": [{"id": "1", "votes": 12}, {"id": "2", "votes": 10}]}
    body = running(ip_restriction_per_participant=1, ordering=positions) | {"contest_type": "ordering"}
    contest = await api.contest(4, body)
    assert (await contest.ballot(0, 1, voter="anna", ip=ADDRESS)).status_code == 201
    refused = await contest.ballot(2, 0, voter="bert", ip=ADDRESS)
    assert (code(refused), refused.json()["used"]) == ((409, "ip_limit_reached"), 1)
    assert (await contest.ballot(3, 2, voter="bert", ip=ADDRESS)).status_code == 201
    assert (await contest.ballot(1, 0, voter="anna", ip=ADDRESS)).status_code == 201


@pytest.mark.secured
async def test_only_approved_participants_take_votes_from_the_answer_to_the_patch_on(api: Api) -> None:
    contest = await api.contest(1)
    for status, taken in (("rejected", False), ("approved", True), ("rejected", False)):
        path = f"/participants/{contest.participants[0]}"
        assert (await api.client.patch(path, json={"status": status})).status_code == 200
        answer = await contest.vote(0, f"voter while {status}")
        assert code(answer) == ((201, None) if taken else (409, "participant_not_votable"))
    assert code(await contest.vote("nobody")) == (404, "not_found")
