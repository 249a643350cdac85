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
