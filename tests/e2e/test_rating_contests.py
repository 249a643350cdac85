"""Rating contests over HTTP: values, replacement, and their sums and averages."""

from typing import Any

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
