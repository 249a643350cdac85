"""Ordering contests over HTTP: a ballot is one vote and one event, and replaces the voter's previous one."""

from typing import Any

from tests.support.voting import Api, Contest, running

POSITIONS = [
    {"id": "2", "index": 2, "votes": 3},
    {"id": "1", "index": 1, "votes": 5},
    {"id": "3", "index": 3, "votes": 1},
    {"id": "none", "index": 4, "votes": 0},
]


async def an_ordering_contest(api: Api, **config: Any) -> Contest:
    body = running(ordering={"positions": POSITIONS}, **config) | {"contest_type": "ordering"}
    return await api.contest(4, body)


def by_participant(contest: Contest, counts: dict[str, Any], member: str = "count") -> list[int]:
    return [counts["participants"][key][member] for key in contest.participants]


async def test_a_ballot_gives_each_position_its_votes_and_is_one_vote(api: Api) -> None:
    contest = await an_ordering_contest(api, free={"max_contest": 3})
    answer = await contest.ballot(2, 0, 1)
    assert answer.status_code == 201, answer.text
    keys = contest.participants
    assert answer.json()["choices"] == [
        {"participant_key": keys[2], "count": 5},
        {"participant_key": keys[0], "count": 3},
        {"participant_key": keys[1], "count": 1},
    ]
    assert answer.json()["remaining"] == {"participant": None, "contest": 2}
    counts = await contest.counts(answer.headers["tally-position"])
    assert by_participant(contest, counts) == [3, 1, 5, 0]
    assert by_participant(contest, counts, "unique_voter_count") == [1, 1, 1, 0]
    assert (counts["count"], counts["unique_voter_count"]) == (9, 1)
    assert (await contest.status(answer))["choices"] == answer.json()["choices"]


async def test_a_new_ballot_replaces_the_old_and_uses_no_allowance(api: Api) -> None:
    contest = await an_ordering_contest(api, free={"max_contest": 1})
    old = await contest.ballot(0, 1, 2)
    new = await contest.ballot(3, 0)
    assert (new.status_code, new.json()["remaining"]["contest"]) == (201, 0)
    counts = await contest.counts(new.headers["tally-position"])
    assert by_participant(contest, counts) == [3, 0, 0, 5]
    assert by_participant(contest, counts, "unique_voter_count") == [1, 0, 0, 1]
    assert (counts["count"], counts["unique_voter_count"]) == (8, 1)
    assert (await contest.status(old))["status"] == "replaced"
    again = await contest.ballot(0, 1, 2, vote_id=old.json()["vote_id"])
    assert (again.status_code, again.json()) == (200, old.json())
