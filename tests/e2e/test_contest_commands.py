"""Contests in commands: found by title, listed, and restored after a deletion with all that was voted."""

import json

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.purchases_over_http import becomes, bought, refund
from tests.support.clients.voting import Api, Contest, code, hours_from_now, new_id
from tests.support.eventually import eventually


@pytest.mark.secured
async def test_a_deleted_contest_is_listed_and_restored_with_its_votes(api: Api, stack: Supervisor) -> None:
    contest = await api.contest(participants=3)
    paid = await bought(contest, 5)
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


async def test_a_refund_in_a_deleted_contest_holds_after_its_restoration(api: Api, stack: Supervisor) -> None:
    """A platform refunds what the list of uncounted purchases names."""
    contest = await api.contest()
    refunded, kept = await bought(contest, 5), await bought(contest, 2, user="another")
    await contest.reaches(count=7)
    assert (await api.client.delete(contest.path)).status_code == 204
    for record in (refunded, kept):
        await becomes(api.client, record, "uncounted")
    for _ in range(2):
        assert (await refund(api.client, refunded))["status"] == "refunded"

    async def is_taken_back() -> bool:
        listed = (await tally_json(stack, "contests", "deleted"))["contests"]
        [deleted] = [each for each in listed if each["key"] == contest.key]
        return bool(deleted["votes"] == 2)

    await eventually(is_taken_back)
    assert (await tally(stack, "contests", "restore", contest.key, "--execute")).exit_code == 0
    await becomes(api.client, kept, "cast")
    assert (await refund(api.client, refunded))["status"] == "refunded"
    await contest.reaches(count=2)
    assert (await tally_json(stack, "verify", contest.key))["equal"]


async def entitled(api: Api, title: str) -> Contest:
    contest = await api.contest()
    changed = await api.client.patch(contest.path, json={"title": title})
    assert changed.status_code == 200, changed.text
    assert (await contest.vote(0, "ann")).status_code == 201
    return contest


async def test_a_contest_is_named_by_its_title_where_only_one_has_it(api: Api, stack: Supervisor) -> None:
    title = f"Grand final {new_id()[:8]}"
    contest = await entitled(api, title)
    assert (await tally_json(stack, "count", title.upper()))["record"]["contest_key"] == contest.key
    other = await entitled(api, title)
    for words in (("count",), ("verify",), ("void", "run"), ("sources", "list")):
        refused = await tally(stack, *words, title, *(["--all"] if "run" in words else []))
        assert refused.exit_code == 2, words
        assert contest.key in "".join(refused.stderr.replace("│", "").split())
        assert other.key in "".join(refused.stderr.replace("│", "").split())
    assert (await tally(stack, "count", contest.key)).exit_code == 0


async def test_contests_are_listed_with_their_counts_and_phases(api: Api, stack: Supervisor) -> None:
    title = f"Listed {new_id()[:8]}"
    contest = await entitled(api, title)

    async def is_listed() -> bool:
        listed = (await tally_json(stack, "contests"))["contests"]
        (row,) = [one for one in listed if one["key"] == contest.key]
        assert (row["title"], row["state"], row["account"]) == (title, "running", "dev")
        return bool((row["votes"], row["voters"]) == (1, 1))

    await eventually(is_listed)
    assert title in (await tally(stack, "contests", "--account", "dev")).stdout
    assert title not in (await tally(stack, "contests", "--account", "other")).stdout
    refused = await tally(stack, "reopen", title, "--end", hours_from_now(1))
    assert refused.exit_code == 1
    assert f"{title} ({contest.key}) is not closed" in refused.stderr
