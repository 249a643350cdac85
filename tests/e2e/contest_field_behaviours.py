"""Behaviour of every field of `contest_config`."""

from collections.abc import Awaitable, Callable
from typing import Any

from tests.support.eventually import eventually
from tests.support.voting import Api, Contest, code, hours_from_now, moment, running

Behaviour = Callable[[Api], Awaitable[None]]


async def public(contest: Contest) -> dict[str, Any]:
    answer = await contest.client.get(f"/public{contest.path}/results", headers={"Authorization": ""})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


async def typed(api: Api, contest_type: str, participants: int = 2, **config: Any) -> Contest:
    return await api.contest(participants, running(**config) | {"contest_type": contest_type})


async def start(api: Api) -> None:
    contest = await api.contest(start=hours_from_now(1), end=hours_from_now(2))
    refused = await contest.vote()
    assert (code(refused), refused.json()["phase"]) == ((409, "contest_not_running"), "announced")
    await contest.change(start=hours_from_now(-1))
    assert (await contest.vote()).status_code == 201


async def end(api: Api) -> None:
    contest = await api.contest(start=hours_from_now(-2), end=hours_from_now(-1))
    refused = await contest.vote()
    assert (code(refused), refused.json()["phase"]) == ((409, "contest_not_running"), "finished")


async def free_is_mobile_only(api: Api) -> None:
    contest = await api.contest(free={"is_mobile_only": True})
    assert code(await contest.vote(platform="web")) == (403, "mobile_only")
    assert (await contest.vote(platform="ios")).status_code == 201


async def free_max_contest(api: Api) -> None:
    contest = await api.contest(free={"max_contest": 1})
    await contest.vote(0)
    assert code(await contest.vote(1)) == (409, "contest_limit_reached")
    assert (await contest.vote(1, source="c-paid")).status_code == 201


async def free_max_participant(api: Api) -> None:
    contest = await api.contest(free={"max_participant": 2})
    assert code(await contest.vote(count=3)) == (409, "participant_limit_reached")
    assert (await contest.vote(count=2)).status_code == 201


async def paid_is_anonymous(api: Api) -> None:
    contest = await api.contest(paid={"is_anonymous": True})
    assert code(await contest.vote(anonymous_id="n")) == (403, "anonymous_voting_disabled")
    paid = await contest.vote(anonymous_id="n", source="c-paid")
    counts = await contest.counts(paid.headers["tally-position"])
    assert (counts["anonymous_voter_count"], counts["unique_voter_count"]) == (1, 1)


async def paid_max_contest(api: Api) -> None:
    contest = await api.contest(paid={"max_contest": 1})
    await contest.vote(0, source="c-paid")
    assert code(await contest.vote(1, source="c-paid")) == (409, "contest_limit_reached")


async def paid_max_participant(api: Api) -> None:
    contest = await api.contest(paid={"max_participant": 1})
    assert code(await contest.vote(0, source="c-paid", count=2)) == (409, "participant_limit_reached")


async def rating_max_per_participant(api: Api) -> None:
    contest = await typed(api, "rating", rating={"max_per_participant": 2})
    assert [(await contest.rate(0, 1)).status_code for _ in range(3)] == [201, 201, 409]


async def rating_max_rating(api: Api) -> None:
    contest = await typed(api, "rating", rating={"max_rating": 3})
    assert code(await contest.rate(0, 4)) == (422, "validation_failed")
    assert (await contest.rate(0, 3)).status_code == 201


async def rating_step_size(api: Api) -> None:
    contest = await typed(api, "rating", rating={"step_size": "fraction"})
    assert (await contest.rate(0, 2.5)).status_code == 201
    whole = await typed(api, "rating", rating={})
    assert code(await whole.rate(0, 2.5)) == (422, "validation_failed")


async def rating_sub_rating_id(api: Api) -> None:
    contest = await typed(api, "rating", rating={"sub_rating_configs": [{"sub_rating_id": "song"}]})
    assert (await contest.rate(0, 1, sub_ratings={"song": 2})).status_code == 201
    assert code(await contest.rate(1, 1, sub_ratings={"dance": 2})) == (422, "validation_failed")


async def rating_max_votes(api: Api) -> None:
    subs = [{"sub_rating_id": "song", "max_votes": 2}, {"sub_rating_id": "show"}]
    contest = await typed(api, "rating", rating={"max_rating": 3, "sub_rating_configs": subs})
    assert code(await contest.rate(0, 1, sub_ratings={"song": 3})) == (422, "validation_failed")
    assert (await contest.rate(0, 1, sub_ratings={"song": 2, "show": 3})).status_code == 201


async def ordering_id(api: Api) -> None:
    contest = await typed(api, "ordering", ordering={"positions": [{"id": "1"}]})
    assert (await contest.ballot(0)).status_code == 201
    assert code(await contest.ballot(0, 1)) == (422, "validation_failed")


async def ordering_index(api: Api) -> None:
    positions = [{"id": "2", "index": 2, "votes": 1}, {"id": "1", "index": 1, "votes": 4}]
    contest = await typed(api, "ordering", ordering={"positions": positions})
    choices = (await contest.ballot(1, 0)).json()["choices"]
    assert [choice["participant_key"] for choice in choices] == [contest.participants[1], contest.participants[0]]


async def ordering_votes(api: Api) -> None:
    contest = await typed(api, "ordering", ordering={"positions": [{"id": "1", "votes": 12}, {"id": "2"}]})
    assert [choice["count"] for choice in (await contest.ballot(0, 1)).json()["choices"]] == [12, 1]


async def ip_restriction(api: Api) -> None:
    contest = await api.contest(ip_restriction_per_participant=2)
    votes = [await contest.vote(0, f"v{number}", ip="2001:db8::1") for number in range(2)]
    assert [vote.status_code for vote in votes] == [201, 201]
    refused = await contest.vote(0, "v9", ip="2001:db8::ffff")
    assert (code(refused), refused.json()["limit"]) == ((409, "ip_limit_reached"), 2)
    assert (await contest.vote(0, "v9", ip="2001:db8:0:1::1")).status_code == 201
    assert (await contest.vote(1, "v8", ip="2001:db8::1")).status_code == 201
    assert (await contest.vote(0, "v8", ip="2001:db8::1", source="c-paid")).status_code == 201


async def limit_result_amount(api: Api) -> None:
    contest = await api.contest(3, limit_result_amount=2, participant_order="vote_count")
    last = await contest.vote(2)
    await contest.counts(last.headers["tally-position"])
    results = await eventually_public(contest, count=1)
    assert [entry["participant_key"] for entry in results["participants"]] == [
        contest.participants[2],
        contest.participants[0],
    ]
    assert len((await contest.counts())["participants"]) == 3


async def is_anonymous_voting_enabled(api: Api) -> None:
    contest = await api.contest(is_anonymous_voting_enabled=True)
    free = await contest.vote(anonymous_id="n")
    assert free.status_code == 201
    assert code(await contest.vote(anonymous_id="n", source="c-paid")) == (403, "anonymous_voting_disabled")
    counts = await contest.counts(free.headers["tally-position"])
    entry = counts["participants"][contest.participants[0]]
    shown = [counts, entry, entry["vote_sources"][0], counts["total_vote_sources"][0]]
    assert [each["anonymous_voter_count"] for each in shown] == [1, 1, 1, 1]


async def is_vote_removal_allowed(api: Api) -> None:
    contest = await api.contest(is_vote_removal_allowed=False)
    vote = await contest.vote()
    assert code(await contest.remove(vote)) == (403, "vote_removal_not_allowed")
    await contest.change(is_vote_removal_allowed=None)
    assert (await contest.remove(vote)).status_code == 204


async def eventually_public(contest: Contest, count: int) -> dict[str, Any]:
    """The public results once they show `count` votes: caches may lag by a moment."""

    async def look() -> dict[str, Any]:
        results = await public(contest)
        assert results["count"] == count
        return results

    return await eventually(look)


async def participant_order(api: Api) -> None:
    contest = await api.contest(3, free={"max_participant": -1}, participant_order="vote_count")
    await contest.vote(1, count=2)
    last = await contest.vote(2, count=5)
    await contest.counts(last.headers["tally-position"])
    results = await eventually_public(contest, count=7)
    a, b, c = contest.participants
    assert [entry["participant_key"] for entry in results["participants"]] == [c, b, a]
    await contest.change(participant_order="running_number")
    assert [entry["participant_key"] for entry in (await public(contest))["participants"]] == [a, b, c]
    assert (await contest.client.patch(contest.path, json={"running_order": [c, "gone"]})).status_code == 200
    assert [entry["participant_key"] for entry in (await public(contest))["participants"]] == [c, a, b]
    for wrong in ([a, a], [""], [1], "ab", [str(number) for number in range(1_001)]):
        refused = await contest.client.patch(contest.path, json={"running_order": wrong})
        assert code(refused) == (422, "validation_failed")


async def participant_visibility(api: Api) -> None:
    contest = await api.contest(participant_visibility="owner_only")
    assert (await public(contest))["participants"] == []
    assert len((await contest.counts())["participants"]) == 2


async def vote_visibility(api: Api) -> None:
    for hidden in ("hidden", "hidden_until_end", "hidden_until_vote"):
        contest = await api.contest(vote_visibility=hidden)
        vote = await contest.vote()
        await contest.counts(vote.headers["tally-position"])
        results = await public(contest)
        assert results["count"] is None
        assert all(entry[name] is None for entry in results["participants"] for name in ("count", "rank", "share"))
    answer = await contest.client.get(
        f"/public{contest.path}/results", params={"receipt": vote.json()["receipt"]}, headers={"Authorization": ""}
    )
    assert answer.json()["count"] == 1


async def result_release(api: Api) -> None:
    contest = await api.contest(result_release="by_hand")
    vote = await contest.vote()
    await contest.counts(vote.headers["tally-position"])
    assert (await public(contest))["count"] == 1
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
    assert (await public(contest))["count"] is None


async def cooldown(api: Api) -> None:
    contest = await api.contest(renew_free_vote={"cooldown": 30})
    vote = (await contest.vote()).json()
    assert (moment(vote["next_free_vote_at"]) - moment(vote["accepted_at"])).total_seconds() == 30


async def days_between(api: Api) -> None:
    contest = await api.contest(renew_free_vote={"days_between": 1})
    vote = (await contest.vote()).json()
    assert vote["next_free_vote_at"].endswith("T00:00:00.000000Z")


async def participant_default_status(api: Api) -> None:
    contest = await api.contest(participant_default_status="pending")
    assert code(await contest.vote(0)) == (409, "participant_not_votable")


BEHAVIOURS: dict[str, Behaviour] = {
    "start": start,
    "end": end,
    "free.is_mobile_only": free_is_mobile_only,
    "free.max_contest": free_max_contest,
    "free.max_participant": free_max_participant,
    "paid.is_anonymous": paid_is_anonymous,
    "paid.max_contest": paid_max_contest,
    "paid.max_participant": paid_max_participant,
    "rating.max_per_participant": rating_max_per_participant,
    "rating.max_rating": rating_max_rating,
    "rating.step_size": rating_step_size,
    "rating.sub_rating_configs.sub_rating_id": rating_sub_rating_id,
    "rating.sub_rating_configs.max_votes": rating_max_votes,
    "ordering.positions.id": ordering_id,
    "ordering.positions.index": ordering_index,
    "ordering.positions.votes": ordering_votes,
    "ip_restriction_per_participant": ip_restriction,
    "limit_result_amount": limit_result_amount,
    "is_anonymous_voting_enabled": is_anonymous_voting_enabled,
    "is_vote_removal_allowed": is_vote_removal_allowed,
    "participant_order": participant_order,
    "participant_visibility": participant_visibility,
    "vote_visibility": vote_visibility,
    "result_release": result_release,
    "renew_free_vote.cooldown": cooldown,
    "renew_free_vote.days_between": days_between,
    "participant_default_status": participant_default_status,
}
STORED = {
    "silver.max_contest",
    "silver.max_participant",
    "rating.style",
    "rating.sub_rating_configs.title",
    "rating.sub_rating_configs.style",
    "ordering.skin",
    "ordering.position_style",
    "ordering.position_icon",
    "ordering.positions.title",
    "ordering.positions.style",
    "ordering.positions.icon",
    "ip_config",
    "share_top_x",
    "is_contest_time_shown",
    "is_grid_hidden",
    "is_randomize",
    "participant_style",
    "contest_visibility",
    "show_video_play_button",
}
"""Fields that do nothing on the server: kept and shown (`current_api/test_fields.py`), read by clients."""
