"""Rating contests over HTTP: values, replacement, and their sums and averages."""

from typing import Any

import pytest

from tests.support.voting import Api, Contest, code, running

SUBS = [{"sub_rating_id": "song", "max_votes": 10}, {"sub_rating_id": "show"}]


async def a_rating_contest(api: Api, participants: int = 2, **config: Any) -> Contest:
    rating = {"max_rating": 5, "step_size": "fraction", "sub_rating_configs": SUBS} | config.pop("rating", {})
    body = running(rating=rating, **config) | {"contest_type": "rating"}
    return await api.contest(participants, body)


async def test_a_rating_counts_as_one_vote_and_shows_in_sum_and_average(api: Api) -> None:
    contest = await a_rating_contest(api)
    first = await contest.rate(0, 4.5, "anna", sub_ratings={"song": 9.5, "show": 2})
    assert first.status_code == 201, first.text
    assert first.json()["choices"] == [{"participant_key": contest.participants[0], "count": 1}]
    assert first.json()["remaining"] == {"participant": 0, "contest": None}
    last = await contest.rate(0, 3, "bert", sub_ratings={"song": 1})
    await contest.counts(first.headers["tally-position"])
    counts = await contest.counts(last.headers["tally-position"])
    rated, other = (counts["participants"][key] for key in contest.participants)
    assert (counts["count"], rated["count"], rated["unique_voter_count"]) == (2, 2, 2)
    assert (rated["rating"]["sum"], rated["rating"]["average"]) == (7.5, 3.75)
    assert rated["rating"]["sub_ratings"]["song"] == {"sum": 10.5, "average": 5.25}
    assert rated["rating"]["sub_ratings"]["show"] == {"sum": 2, "average": 2}
    assert (other["rating"]["sum"], other["rating"]["average"]) == (0, None)


async def test_a_new_rating_replaces_the_old_one_and_uses_no_allowance(api: Api) -> None:
    contest = await a_rating_contest(api, free={"max_contest": 1})
    old = await contest.rate(0, 5)
    new = await contest.rate(0, 1.25, sub_ratings={"song": 3})
    assert (new.status_code, new.json()["remaining"]) == (201, {"participant": 0, "contest": 0})
    assert code(await contest.rate(1, 5)) == (409, "contest_limit_reached")
    counts = await contest.counts(new.headers["tally-position"])
    rated = counts["participants"][contest.participants[0]]
    assert (rated["count"], rated["unique_voter_count"], rated["rating"]["sum"]) == (1, 1, 1.25)
    assert (await contest.status(old))["status"] == "replaced"
    assert (await contest.status(new))["status"] == "counted"
    again = await contest.rate(0, 5, vote_id=old.json()["vote_id"])
    assert (again.status_code, again.json()) == (200, old.json())
    assert (await contest.counts())["participants"][contest.participants[0]]["rating"]["sum"] == 1.25


async def test_removing_a_replacement_brings_nothing_back(api: Api) -> None:
    contest = await a_rating_contest(api)
    await contest.rate(0, 5)
    new = await contest.rate(0, 1)
    removed = await contest.remove(new)
    counts = await contest.counts(removed.headers["tally-position"])
    assert (counts["count"], counts["unique_voter_count"]) == (0, 0)
    assert counts["participants"][contest.participants[0]]["rating"]["sum"] == 0
    assert (await contest.rate(0, 2)).status_code == 201


async def test_several_ratings_of_a_participant_are_bounded_and_replace_nothing(api: Api) -> None:
    contest = await a_rating_contest(api, rating={"max_per_participant": 2})
    await contest.rate(0, 5)
    second = await contest.rate(0, 1)
    assert second.json()["remaining"]["participant"] == 0
    refused = await contest.rate(0, 1)
    assert code(refused) == (409, "participant_limit_reached")
    assert (refused.json()["limit"], refused.json()["used"]) == (2, 2)
    counts = await contest.counts(second.headers["tally-position"])
    assert counts["participants"][contest.participants[0]]["rating"]["average"] == 3
    unlimited = await a_rating_contest(api, rating={"max_per_participant": -1})
    answers = [await unlimited.rate(0, 1) for _ in range(3)]
    assert [answer.json()["remaining"]["participant"] for answer in answers] == [None] * 3
    none = await a_rating_contest(api, rating={"max_per_participant": 0})
    assert code(await none.rate(0, 1)) == (409, "participant_limit_reached")


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, "/rating"),
        ({"rating": {"value": 5.5}}, "/rating/value"),
        ({"rating": {"value": -1}}, "/rating/value"),
        ({"rating": {"value": "4"}}, "/rating/value"),
        ({"rating": {"sub_ratings": {"song": 1}}}, "/rating/value"),
        ({"rating": {"value": 4, "sub_ratings": {"song": 10.5}}}, "/rating/sub_ratings/song"),
        ({"rating": {"value": 4, "sub_ratings": {"show": 5.5}}}, "/rating/sub_ratings/show"),
        ({"rating": {"value": 4, "sub_ratings": {"dance": 1}}}, "/rating/sub_ratings/dance"),
        ({"rating": {"value": 4, "sub_ratings": {"a/b~": 1}}}, "/rating/sub_ratings/a~1b~0"),
        ({"rating": {"value": 4, "stars": 1}}, "/rating/stars"),
        ({"rating": {"value": 4}, "count": 2}, "/count"),
        ({"rating": {"value": 4}, "positions": {"1": "p"}}, "/positions"),
    ],
)
async def test_a_rating_off_the_scale_is_refused_with_the_member_that_is_wrong(
    api: Api, body: dict[str, Any], pointer: str
) -> None:
    contest = await a_rating_contest(api, 1)
    answer = await contest.vote(0, **body)
    assert code(answer) == (422, "validation_failed")
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [pointer]


async def test_without_fractions_ratings_are_whole(api: Api) -> None:
    contest = await a_rating_contest(api, rating={"step_size": "whole"})
    assert code(await contest.rate(0, 4.5)) == (422, "validation_failed")
    assert code(await contest.rate(0, 4, sub_ratings={"song": 0.5})) == (422, "validation_failed")
    assert (await contest.rate(0, 4.0, sub_ratings={"song": 10})).status_code == 201


async def test_other_contests_take_no_ratings(api: Api) -> None:
    contest = await api.contest()
    assert code(await contest.rate(0, 4)) == (422, "validation_failed")


async def test_the_same_id_with_another_value_is_a_misuse(api: Api) -> None:
    contest = await a_rating_contest(api)
    assert (await contest.rate(0, 4, vote_id="x")).status_code == 201
    assert code(await contest.rate(0, 4.5, vote_id="x")) == (422, "idempotency_key_reused")
    assert (await contest.rate(0, 4.0, vote_id="x", platform="ios")).status_code == 200


async def test_a_contest_shows_the_scale_that_holds_where_none_was_named(api: Api) -> None:
    contest = await api.contest(body=running() | {"contest_type": "rating"})
    shown = (await api.client.get(contest.path)).json()["contest_config"]["rating"]
    assert (shown["max_rating"], shown["max_per_participant"], shown["step_size"]) == (5, 1, None)
    assert (await contest.rate(0, shown["max_rating"])).status_code == 201
