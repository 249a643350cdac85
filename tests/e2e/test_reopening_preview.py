"""`tally reopen` shows what a reopening changes, participant by participant."""

from datetime import UTC, datetime, timedelta
from typing import Any

from libs.local_stack.supervisor import Supervisor
from tests.support.commands import tally, tally_json
from tests.support.eventually import eventually
from tests.support.voting import Api, hours_from_now


async def test_a_disqualification_after_the_end_is_in_the_preview_of_a_reopening(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest(participants=3)
    votes = [await contest.vote(0, "ann"), await contest.vote(0, "bob"), await contest.vote(1, "ann")]
    await contest.counts_with(*votes)
    await contest.change(end=(datetime.now(UTC) - timedelta(seconds=1)).isoformat())
    rejected = f"/participants/{contest.participants[0]}"
    until = hours_from_now(1)

    async def previewed() -> dict[str, Any]:
        found: dict[str, Any] = await tally_json(stack, "reopen", contest.key, "--end", until)
        return found

    async def is_closed() -> bool:
        return (await tally(stack, "reopen", contest.key, "--end", until)).exit_code == 0

    await eventually(is_closed)
    assert (await api.client.patch(rejected, json={"status": "rejected"})).json()["waits_for_reopening"]
    found = await previewed()
    members = ("status", "votes", "rank")
    assert [[row[name] for name in members] for row in found["participants"]] == [
        [["approved", "rejected"], [2, None], [1, None]],
        [["approved", "approved"], [1, 1], [2, 1]],
        [["approved", "approved"], [0, 0], [3, 2]],
    ]
    text = (await tally(stack, "reopen", contest.key, "--end", until)).stdout
    assert "approved -> rejected 2 -> -" in " ".join(text.split())
    assert (await contest.counts())["count"] == 3
    await tally_json(stack, "reopen", contest.key, "--end", until, "--execute")
    assert (await contest.counts())["count"] == 1
