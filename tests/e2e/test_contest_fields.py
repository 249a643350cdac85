"""Effect of every field of `contest_config`.

`RULES`, `BEHAVIOURS` and `STORED` name each field of the schema.
"""

from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, get_args

import httpx
import pytest
from pydantic import BaseModel

from libs.catalogue.schemas.contest import ContestConfig
from tests.support.clients.http_clients import ok
from tests.support.clients.voting import Api, Contest, code, hours_from_now, moment, running
from tests.support.eventually import eventually

Behaviour = Callable[[Api], Awaitable[None]]
Vote = Callable[[Contest], Awaitable[httpx.Response]]
LIMIT: Final = (409, "participant_limit_reached")
CONTEST_LIMIT: Final = (409, "contest_limit_reached")
INVALID: Final = (422, "validation_failed")
SUB_RATINGS: Final = [{"sub_rating_id": "song", "max_votes": 2}, {"sub_rating_id": "show"}]


def vote(**members: Any) -> Vote:
    return lambda contest: contest.vote(**members)


def rating(value: float, **sub_ratings: float) -> Vote:
    return lambda contest: contest.rate(0, value, sub_ratings=sub_ratings)


def paid(count: int) -> Vote:
    return vote(source="c-paid", count=count)


def ballot(*places: int) -> Vote:
    return lambda contest: contest.ballot(*places)


RULES: Final[dict[str, tuple[dict[str, Any], Vote, tuple[int, str], Vote]]] = {
    "free.is_mobile_only": (
        {"is_mobile_only": True},
        vote(platform="web"),
        (403, "mobile_only"),
        vote(platform="ios"),
    ),
    "free.max_contest": ({"max_contest": 1, "max_participant": -1}, vote(count=2), CONTEST_LIMIT, paid(2)),
    "free.max_participant": ({"max_participant": 2}, vote(count=3), LIMIT, vote(count=2)),
    "paid.max_contest": ({"max_contest": 1}, paid(2), CONTEST_LIMIT, paid(1)),
    "paid.max_participant": ({"max_participant": 1}, paid(2), LIMIT, paid(1)),
    "rating.max_rating": ({"max_rating": 3}, rating(4), INVALID, rating(3)),
    "rating.sub_rating_configs.sub_rating_id": (
        {"sub_rating_configs": SUB_RATINGS},
        rating(1, dance=2),
        INVALID,
        rating(1, song=2),
    ),
    "rating.sub_rating_configs.max_votes": (
        {"max_rating": 3, "sub_rating_configs": SUB_RATINGS},
        rating(1, song=3),
        INVALID,
        rating(1, song=2, show=3),
    ),
    "ordering.positions.id": ({"positions": [{"id": "1"}]}, ballot(0, 1), INVALID, ballot(0)),
}
"""By the field: the object that it is in, a vote which that refuses, the refusal, and a vote which it takes."""


async def public(contest: Contest) -> dict[str, Any]:
    return ok(await contest.client.get(f"/public{contest.path}/results", headers={"Authorization": ""}))


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


async def paid_is_anonymous(api: Api) -> None:
    contest = await api.contest(paid={"is_anonymous": True})
    assert code(await contest.vote(anonymous_id="n")) == (403, "anonymous_voting_disabled")
    paid = await contest.vote(anonymous_id="n", source="c-paid")
    counts = await contest.counts(paid.headers["tally-position"])
    assert (counts["anonymous_voter_count"], counts["unique_voter_count"]) == (1, 1)


async def rating_max_per_participant(api: Api) -> None:
    contest = await typed(api, "rating", rating={"max_per_participant": 2})
    assert [(await contest.rate(0, 1)).status_code for _ in range(3)] == [201, 201, 409]


async def rating_step_size(api: Api) -> None:
    contest = await typed(api, "rating", rating={"step_size": "fraction"})
    assert (await contest.rate(0, 2.5)).status_code == 201
    whole = await typed(api, "rating", rating={})
    assert code(await whole.rate(0, 2.5)) == (422, "validation_failed")


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
    contest = await api.contest(vote_visibility="hidden")
    await contest.counts_with(await contest.vote())
    results = await public(contest)
    assert results["count"] is None
    assert all(entry[name] is None for entry in results["participants"] for name in ("count", "rank", "share"))


async def result_release(api: Api) -> None:
    contest = await api.contest(result_release="by_hand")
    vote = await contest.vote()
    await contest.counts(vote.headers["tally-position"])
    assert (await public(contest))["count"] == 1
    assert (await contest.change(end=hours_from_now(-0.001))).status_code == 200
    assert (await public(contest))["count"] is None


async def cooldown(api: Api) -> None:
    """The answer names it, as do the allowance and, to the second, the refusal."""
    contest = await api.contest(renew_free_vote={"cooldown": 600})
    accepted = (await contest.vote()).json()
    due = moment(accepted["accepted_at"]) + timedelta(seconds=600)
    assert moment(accepted["next_free_vote_at"]) == moment((await contest.allowance())["next_free_vote_at"]) == due
    before, refused, after = datetime.now(UTC), await contest.vote(), datetime.now(UTC)
    assert code(refused) == (409, "participant_limit_reached")
    assert moment(refused.json()["next_free_vote_at"]) == due
    most_s, least_s = ((due - asked).total_seconds() for asked in (before, after))
    assert least_s <= int(refused.headers["retry-after"]) <= most_s + 1


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
    "paid.is_anonymous": paid_is_anonymous,
    "rating.max_per_participant": rating_max_per_participant,
    "rating.step_size": rating_step_size,
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


def fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """The paths of all members that are no typed objects themselves; through lists as through objects."""
    for name, info in model.model_fields.items():
        inner = [each for each in models_in(info.annotation) if each is not dict]
        if inner:
            yield from fields(inner[0], f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def models_in(annotation: Any) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [model for part in get_args(annotation) for model in models_in(part)]


def test_the_table_names_every_field_of_the_schema() -> None:
    assert set(fields(ContestConfig)) == RULES.keys() | BEHAVIOURS.keys() | STORED


@pytest.mark.parametrize("path", RULES)
async def test_a_rule_refuses_one_vote_and_takes_another(api: Api, path: str) -> None:
    members, refused, refusal, taken = RULES[path]
    name = path.partition(".")[0]
    config: dict[str, Any] = {name: members}
    contest = await typed(api, "voteonly" if name in ("free", "paid") else name, **config)
    assert code(await refused(contest)) == refusal
    assert (await taken(contest)).status_code == 201


@pytest.mark.parametrize("path", BEHAVIOURS)
async def test_a_field_causes_its_behaviour(api: Api, path: str) -> None:
    await BEHAVIOURS[path](api)
