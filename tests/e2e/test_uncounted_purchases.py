"""Paid votes that stop counting put their purchase on the refund list, for as long as they do not count."""

from typing import Any

from tests.support.eventually import eventually
from tests.support.purchases_over_http import PURCHASES, becomes, purchase, refund, send, wait_for_paid_votes
from tests.support.voting import Api, Contest


async def listed(api: Api) -> dict[str, Any]:
    answer = await api.client.get(f"{PURCHASES}/refunds", params={"limit": 100})
    assert answer.status_code == 200
    return {one["key"]: one for one in answer.json()["data"]}


async def bought(api: Api, contest: Contest, count: int = 7, **changes: Any) -> dict[str, Any]:
    return await becomes(api.client, await send(api.client, purchase(contest, count, **changes)), "cast")


async def set_status(contest: Contest, participant: str, status: str) -> None:
    answer = await contest.client.patch(f"/participants/{participant}", json={"status": status})
    assert answer.status_code == 200, answer.text


async def test_a_rejected_participants_purchases_are_to_be_refunded_until_it_is_approved_again(api: Api) -> None:
    contest = await api.contest()
    first, other = contest.participants[:2]
    record = await bought(api, contest)
    vote = {"contest_key": contest.key, "participant_key": other, "count": 2}
    untouched = await bought(api, contest, vote=vote)
    await wait_for_paid_votes(contest, 9)
    await set_status(contest, first, "rejected")
    uncounted = await becomes(api.client, record, "uncounted")
    assert uncounted["refusal"]["code"] == "participant_not_votable"
    assert first in uncounted["refusal"]["reason"]
    found = await listed(api)
    assert found[record["key"]] == uncounted
    assert untouched["key"] not in found
    await set_status(contest, first, "approved")
    assert (await becomes(api.client, record, "cast"))["refusal"] is None
    assert record["key"] not in await listed(api)
    await wait_for_paid_votes(contest, 9)


async def test_purchases_for_a_deleted_participant_and_in_a_deleted_contest_are_to_be_refunded(api: Api) -> None:
    contest = await api.contest()
    for path in (f"/participants/{contest.participants[0]}", f"/contests/{contest.key}"):
        participant = contest.participants[0 if "participants" in path else 1]
        vote = {"contest_key": contest.key, "participant_key": participant, "count": 2}
        record = await bought(api, contest, vote=vote)
        assert (await api.client.delete(path)).status_code == 204
        uncounted = await becomes(api.client, record, "uncounted")
        assert uncounted["refusal"]["code"] == "not_found"

        async def is_listed(key: str = record["key"]) -> bool:
            return key in await listed(api)

        await eventually(is_listed)
        assert (await refund(api.client, record))["status"] == "refunded"
        assert not await is_listed()
