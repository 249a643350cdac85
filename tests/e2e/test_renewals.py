"""Renewal of free allowances over HTTP: exact to the second, complete, and for free votes only."""

from datetime import UTC, datetime, timedelta

from tests.support.eventually import eventually
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


async def test_after_the_cooldown_the_allowance_is_whole_for_participants_and_contest(api: Api) -> None:
    contest = await renewing(api, free={"max_participant": 2, "max_contest": 3}, cooldown=600)
    assert (await contest.vote(0, count=2)).json()["remaining"] == {"participant": 0, "contest": 1}
    last = await contest.vote(1, count=1)
    assert last.json()["remaining"] == {"participant": 1, "contest": 0}
    refused = await contest.vote(1, count=1)
    assert code(refused) == (409, "contest_limit_reached")
    assert moment(refused.json()["next_free_vote_at"]) == moment(last.json()["next_free_vote_at"])
    await eventually(lambda: counted(contest, last.json()["vote_id"]))
    assert (await contest.change(renew_free_vote={"cooldown": 1})).status_code == 200

    async def is_renewed() -> bool:
        used = await contest.allowance()
        return (used["contest"]["used"], used["next_free_vote_at"]) == (0, None)

    await eventually(is_renewed)
    again = await contest.vote(0, count=2)
    assert again.json()["remaining"] == {"participant": 0, "contest": 1}
    counts = await contest.counts(again.headers["tally-position"])
    assert (counts["count"], counts["unique_voter_count"]) == (5, 1)


async def test_a_request_larger_than_the_whole_allowance_names_no_renewal(api: Api) -> None:
    contest = await renewing(api, cooldown=600)
    await contest.vote()
    refused = await contest.vote(count=2)
    assert (code(refused), refused.json()["next_free_vote_at"]) == ((409, "participant_limit_reached"), None)
    assert "retry-after" not in refused.headers


async def counted(contest: Contest, vote_id: str) -> bool:
    return (await contest.status(vote_id))["status"] == "counted"
