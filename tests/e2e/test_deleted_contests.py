"""A deleted contest can be restored: nothing that was voted is out of reach while the log stands."""

import json

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.commands import tally, tally_json
from tests.support.purchases_over_http import becomes, purchase, send
from tests.support.voting import Api, code


@pytest.mark.secured
async def test_a_deleted_contest_is_listed_and_restored_with_its_votes(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(participants=3)
    paid = await becomes(api.client, await send(api.client, purchase(contest, 5)), "cast")
    votes = [await contest.vote(0, "ann"), await contest.vote(1, "bob")]
    await contest.reaches(count=7)
    before = await contest.counts()
    record = (await api.client.get(contest.path)).json()
    shown = await api.client.put(f"{contest.path}/show", json={"state": "held", "message": "Now!"})
    assert shown.status_code == 200, shown.text
    assert (await api.client.delete(contest.path)).status_code == 204
    assert code(await api.client.get(contest.path)) == code(await contest.vote(0, "eve")) == (404, "not_found")
    assert contest.key not in (await tally(stack, "contests")).stdout
    listed = (await tally_json(stack, "contests", "deleted"))["contests"]
    [deleted] = [each for each in listed if each["key"] == contest.key]
    assert (deleted["title"], deleted["votes"], deleted["voters"]) == ("Final", 7, 3)
    refused = await tally(stack, "count", contest.key)
    assert (refused.exit_code, f"`tally contests restore {contest.key}`" in refused.stderr) == (2, True)

    preview = await tally(stack, "contests", "restore", contest.key)
    assert preview.stdout.splitlines() == [
        f"Contest Final ({contest.key}) of account dev, deleted {deleted['deleted']}: 7 votes of 3 voters.",
        "Run again with --execute to restore it.",
    ]
    assert (await api.client.get(contest.path)).status_code == 404
    assert code(await api.client.get(f"{contest.path}/show")) == (404, "not_found")
    restored = await tally_json(stack, "contests", "restore", contest.key, "--execute")
    assert (restored["executed"], restored["votes"]) == (True, 7)
    again = (await api.client.get(contest.path)).json()
    assert again | {"updated": record["updated"]} == record
    assert (await api.client.get(f"{contest.path}/show")).json() == shown.json()
    participants = (
        await api.client.get(f"{contest.path}/participants", params={"order": "running_number"})
    ).json()
    assert [each["key"] for each in participants["data"]] == contest.participants
    assert (await contest.counts()) | {"updated": before["updated"]} == before
    assert (await contest.status(votes[0], "ann"))["status"] == "counted"
    assert code(await contest.vote(0, "ann")) == (409, "participant_limit_reached")
    last = await contest.vote(2, "eve")
    assert (await contest.counts_with(last))["count"] == 8
    await becomes(api.client, paid, "cast")
    assert (await tally_json(stack, "verify", contest.key))["equal"]
    audited = [json.loads(line) for line in (await tally(stack, "log", "--audit", "--json")).stdout.splitlines()]
    actions = [row["action"] for row in audited if row["subject"].get("key") == contest.key]
    assert actions == ["RecordCreated", "RecordCreated", "RecordDeleted", "ContestRestored"], "one is the show's"
    assert (await tally(stack, "contests", "restore", contest.key, "--execute")).exit_code == 2
