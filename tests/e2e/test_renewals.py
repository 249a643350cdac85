"""Renewal of free allowances over HTTP: exact to the second, complete, and for free votes only."""

from datetime import UTC, datetime, timedelta

from tests.support.voting import Api, Contest, code, moment, running


async def renewing(api: Api, free: dict[str, int] | None = None, **renewal: int) -> Contest:
    return await api.contest(body=running(free=free or {"max_participant": 1}, renew_free_vote=renewal))


async def test_a_cooldown_is_named_in_the_answer_and_in_the_refusal_to_the_second(api: Api) -> None:
    contest = await renewing(api, cooldown=600)
    accepted = (await contest.vote()).json()
    due = moment(accepted["accepted_at"]) + timedelta(seconds=600)
    assert moment(accepted["next_free_vote_at"]) == due
    before, refused, after = datetime.now(UTC), await contest.vote(), datetime.now(UTC)
    assert code(refused) == (409, "participant_limit_reached")
    assert moment(refused.json()["next_free_vote_at"]) == due
    most_s, least_s = ((due - asked).total_seconds() for asked in (before, after))
    assert least_s <= int(refused.headers["retry-after"]) <= most_s + 1
    assert moment((await contest.allowance())["next_free_vote_at"]) == due


async def test_a_request_larger_than_the_whole_allowance_names_no_renewal(api: Api) -> None:
    contest = await renewing(api, cooldown=600)
    await contest.vote()
    refused = await contest.vote(count=2)
    assert (code(refused), refused.json()["next_free_vote_at"]) == ((409, "participant_limit_reached"), None)
    assert "retry-after" not in refused.headers
