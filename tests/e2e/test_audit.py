"""`tally log --audit`: every write and operator action names its actor and origin."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import command_tree, tally, tally_json
from tests.support.clients.http_clients import http_client
from tests.support.clients.purchases_over_http import PURCHASES, becomes, purchase
from tests.support.clients.sources import a_source
from tests.support.clients.stack_keys import development_client
from tests.support.clients.voting import Api, hours_from_now

HOST = socket.gethostname()


async def audit(stack: Supervisor, *arguments: str) -> list[dict[str, Any]]:
    result = await tally(stack, "log", "--audit", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


async def without_processes(stack: Supervisor, *arguments: str) -> list[dict[str, Any]]:
    """The audit without the closings of contests, also of other tests', which come at any time."""
    return [row for row in await audit(stack, *arguments) if (row["actor"] or {}).get("kind") != "process"]


async def a_key(stack: Supervisor, *options: str) -> dict[str, str]:
    permissions = [f"--permission={name}" for name in ("content:read", "content:write", "results:read")]
    return await tally_json(stack, "keys", "create", "--account", "dev", *permissions, *options)


async def test_sealing_says_with_which_certificate(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    await contest.vote(0)
    await contest.change(end=hours_from_now(0))
    assert (await tally(stack, "seal", contest.key, "--execute")).exit_code == 0
    sealed = await tally_json(stack, "unseal", contest.key, "--execute")
    rows = await audit(stack, "--account", "dev")
    changes = [row["changes"] for row in rows if row["subject"].get("key") == contest.key][-2:]
    [old, new] = [{each["member"]: (each["old"], each["new"]) for each in found} for found in changes]
    assert old["seal.sha256"] == new["seal.sha256"][::-1] == (None, sealed["sha256"])


async def test_each_write_of_a_key_names_the_key_and_the_caller_and_no_secret(stack: Supervisor) -> None:
    key = await a_key(stack, "--name", "Till")
    async with development_client(stack.stack | {"api_key": key["api_key"]}) as its:
        made = await its.post("/conventions", json={"title": "A title"})
        assert made.status_code == 201, made.text
        path = made.headers["location"]
        assert (await its.patch(path, json={"title": "Another"})).status_code == 200
        assert (await its.delete(path)).status_code == 204
    rows = await audit(stack, "--key", key["key_id"])
    assert [row["action"] for row in rows] == ["RecordCreated", "RecordChanged", "RecordDeleted"]
    assert {row["subject"]["key"] for row in rows} == {path.rpartition("/")[2]}
    assert rows[1]["changes"] == [{"member": "title", "old": "A title", "new": "Another", "record": ""}]
    for row in rows:
        assert row["actor"] == {"kind": "key", "name": key["key_id"], "origin": "127.0.0.1"}
    assert (await tally(stack, "keys", "revoke", key["key_id"], "--now")).exit_code == 0
    text = (await tally(stack, "log", "--audit", "--account", "dev")).stdout
    issued, revoked = [line for line in text.splitlines() if f"key_id={key['key_id']}" in line]
    assert "command tally keys create from " in issued
    assert f"@{HOST}  KeyIssued account=dev" in issued
    assert "name=Till" in issued
    assert "command tally keys revoke from " in revoked
    _, _, secret = key["api_key"].split("_", 2)
    assert secret not in text


@pytest.mark.secured
async def test_legacy_writes_sessions_and_upload_addresses_name_their_caller(stack: Supervisor) -> None:
    key = await a_key(stack)
    base = stack.stack["base_url"]
    legacy = {"service-brand": "dev", "service-key": key["api_key"]}
    async with http_client(base_url=base) as its:
        made = await its.post("/legacy/contests", headers=legacy, json={"title": "A title"})
        assert made.status_code in (200, 201), made.text
        logged_in = await its.post("/dashboard/session", json={"api_key": key["api_key"]})
        assert logged_in.status_code == 200, logged_in.text
        file = await its.post(
            "/files",
            json={"filename": "a.txt", "file_type": "text/plain", "file_extension": "txt"},
            headers={"origin": base},
        )
        assert file.status_code == 201, file.text
        its.cookies.clear()
        sent = await its.put(file.json()["upload_url"], content=b"text", headers={"content-type": "text/plain"})
        assert sent.status_code == 204, sent.text
    by_key = await audit(stack, "--key", key["key_id"])
    assert [(row["action"], row["subject"]["resource"]) for row in by_key] == [
        ("RecordCreated", "contests"),
        ("RecordCreated", "files"),
    ]
    last = (await without_processes(stack, "--account", "dev"))[-1]
    assert last["actor"] == {"kind": "upload_url", "name": file.json()["key"], "origin": "127.0.0.1"}


@pytest.mark.secured
async def test_reports_purchases_and_removals_name_their_key_and_are_the_same_from_another(
    api: Api, stack: Supervisor
) -> None:
    source = await a_source(api, "A")
    contest, name = source.contest, {"report_id": "r1", "counts": [{"mapped_id": "A", "count": 5}]}
    vote, bought = await contest.vote(0, "anna"), purchase(contest)
    permissions = ("votes:write", "sources:write", "purchases:write", "purchases:read")
    keys = [await a_key(stack, *(f"--permission={name}" for name in permissions)) for _ in range(2)]
    for key in keys:
        async with development_client(stack.stack | {"api_key": key["api_key"]}) as its:
            reported = await its.post(f"{source.path}/counts", json=name)
            recorded = await its.post(PURCHASES, json=bought)
            assert (reported.status_code, recorded.status_code) == (202, 202), reported.text + recorded.text
            assert {answer.headers.get("idempotent-replayed") for answer in (reported, recorded)} == (
                {None} if key is keys[0] else {"true"}
            )
            await becomes(its, recorded.json(), "cast" if key is keys[0] else "refunded")
            refunded = await its.post(f"{PURCHASES}/{recorded.json()['key']}/refund")
            assert refunded.status_code == 202, refunded.text
            removed = await its.delete(
                f"{contest.path}/votes/{vote.json()['vote_id']}", params={"voter_id": "anna"}
            )
            assert removed.status_code == 204, removed.text
    rows = await audit(stack, "--key", keys[0]["key_id"])
    subject, of_purchase = {"contest": contest.key, "title": "Final"}, {"purchase": recorded.json()["key"]}
    assert [(row["action"], row["log"], row["subject"], row["actor"]["origin"]) for row in rows] == [
        ("SourceReported", "votes", subject | {"source": "sms", "report_id": "r1"}, "127.0.0.1"),
        ("PurchaseRecorded", "purchases", of_purchase, "127.0.0.1"),
        ("PurchaseRefunded", "purchases", of_purchase, "127.0.0.1"),
        ("VoteRemoved", "votes", subject | {"vote_id": vote.json()["vote_id"]}, ""),
    ]
    assert {(row["actor"]["kind"], row["actor"]["name"]) for row in rows} == {("key", keys[0]["key_id"])}
    assert {row["account"] for row in rows} == {"dev"}
    assert await audit(stack, "--key", keys[1]["key_id"]) == []
    shown = (await without_processes(stack, "--account", "dev"))[-len(rows) :]
    assert sorted(row["action"] for row in shown) == sorted(row["action"] for row in rows), "none is the refund's"
    verified = await tally(stack, "verify", contest.key)
    assert verified.exit_code == 0, verified.output


@pytest.mark.secured
async def test_actions_of_operators_are_recorded_where_no_event_says_who_did_them(
    api: Api, stack: Supervisor, tmp_path: Path
) -> None:
    contest = await api.contest()
    assert (await contest.vote(0)).status_code == 201
    before = len(await without_processes(stack))
    for arguments in (
        ["void", contest.key, "--all"],
        ["void", contest.key, "--all", "--reason", "fraud", "--execute"],
        ["export", "--to", str(tmp_path / "export"), "--no-secrets"],
        ["replay", "drop", "--projection", "purchases", "--execute"],
    ):
        done = await tally(stack, *arguments)
        assert done.exit_code == 0, done.output
    rows = (await without_processes(stack))[before:]
    assert [row["action"] for row in rows] == ["votes voided", "exported", "generations dropped"]
    assert [row["actor"]["name"] for row in rows] == ["tally void run", "tally export", "tally replay drop"]
    assert rows[1]["subject"] == {"secrets": "False", "files": "True"}
    assert (rows[0]["subject"]["contest"], rows[0]["subject"]["votes"]) == (contest.key, "1")
    assert all(row["actor"]["origin"].endswith(f"@{HOST}") for row in rows)
    assert [row["account"] for row in rows] == ["dev", None, None], "a void is of its contest's account"
    assert rows[0] in await audit(stack, "--account", "dev")


BY_EVENTS = {"contests restore", "erase-contest-secret", "keys revoke", "reopen", "seal", "unseal", "wipe"}
BY_ACTIONS = {
    "purchases import",
    "lost acknowledge",
    "quarantine drop",
    "quarantine retry",
    "replay drop",
    "replay rollback",
    "replay run",
    "secrets retire",
    "secrets rotate",
    "sources release",
    "topics grow",
    "void run",
    "void undo",
}
NOT_AT_ALL = {"import"}
"""It writes nothing but the log that it is given."""


def test_every_command_that_changes_something_is_known_to_the_audit() -> None:
    """A new one finds its place: it writes to the catalogue, or calls `record_action`."""

    def names(group: Any, *path: str) -> list[str]:
        if not hasattr(group, "commands"):
            return [" ".join(path)] if any(one.name == "execute" for one in group.params) else []
        return [name for key, one in group.commands.items() for name in names(one, *path, key)]

    assert {*names(command_tree())} == BY_EVENTS | BY_ACTIONS | NOT_AT_ALL
