"""`tally void`: the preview equals the result, and undo restores the previous counts."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from libs.audit.recount import VoidEvent
from libs.audit.voiding import append
from libs.deployment.deployment import Deployment
from libs.local_stack.supervisor import Supervisor
from libs.tally.errors import LogUnavailable
from services.cli.commands import void as void_command
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.purchases_over_http import becomes, purchase, refund, send, wait_for_paid_votes
from tests.support.clients.voting import Api, Contest, code, hours_from_now
from tests.support.eventually import eventually

BOTS = "203.0.113.7"


async def void(stack: Supervisor, *arguments: str) -> dict[str, Any]:
    return await tally_json(stack, "void", *arguments)


async def is_clean(stack: Supervisor, contest: Contest) -> bool:
    return (await tally(stack, "verify", contest.key)).exit_code == 0


async def votes(contest: Contest, participant: int, *voters: str, **members: Any) -> list[dict[str, Any]]:
    answers = [await contest.vote(participant, voter, vote_id=voter, **members) for voter in voters]
    assert {answer.status_code for answer in answers} == {201}
    await contest.counts_with(*answers)
    return [answer.json() for answer in answers]


async def folded_counts(contest: Contest) -> dict[str, Any]:
    """All but when it changed last."""
    record = await contest.counts()
    return {name: value for name, value in record.items() if name != "updated"} | {
        "total_vote_sources": [source | {"updated": None} for source in record["total_vote_sources"]]
    }


def shown(effect: dict[str, Any], when: str) -> dict[str, int]:
    return {row["participant_key"]: row["count"][when] for row in effect["participants"]}


def served(record: dict[str, Any]) -> dict[str, int]:
    return {key: entry["count"] for key, entry in record["participants"].items()}


async def test_votes_of_an_address_in_a_time_are_voided_as_foreseen_and_brought_back(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest()
    early, _ = await votes(contest, 0, "early", "ann", ip=BOTS)
    bots = await votes(contest, 1, "b1", "b2", "b3", ip=BOTS)
    await votes(contest, 1, "bob", ip="198.51.100.1")
    before = await folded_counts(contest)
    words = [contest.key, "--address", BOTS, "--from", bots[0]["accepted_at"], "--reason", "bots"]
    preview = await void(stack, *words)
    assert (preview["executed"], preview["votes"], preview["voters"]) == (False, 3, 3)
    assert shown(preview, "before") == served(before) == dict(zip(contest.participants, (2, 4), strict=True))
    assert shown(preview, "after") == dict(zip(contest.participants, (2, 1), strict=True))
    assert [row["rank"] for row in preview["participants"]] == [
        {"before": 1, "after": 2},
        {"before": 2, "after": 1},
    ]
    assert await folded_counts(contest) == before
    until = "--until", bots[0]["accepted_at"]
    assert (await void(stack, contest.key, "--address", BOTS, *until))["votes"] == 2

    done = await void(stack, *words, "--execute")
    after = await contest.counts()
    assert done["participants"] == preview["participants"]
    assert shown(done, "after") == served(after)
    assert done["contest"]["unique_voter_count"] == {"before": 6, "after": after["unique_voter_count"]}
    assert await is_clean(stack, contest)
    status = await contest.status("b1", "b1")
    assert (status["status"], status["reason"]) == ("voided", "An operator removed it.")
    assert (await contest.status("early", "early"))["status"] == "counted"
    (listed,) = (await void(stack, "list", contest.key))["voids"]
    assert (listed["void"], listed["reason"], listed["voided"], listed["still_voided"]) == (
        done["void"],
        "bots",
        3,
        3,
    )
    assert (await void(stack, *words))["votes"] == 0

    foreseen = await void(stack, "undo", contest.key, done["void"])
    assert (foreseen["votes"], shown(foreseen, "after")) == (3, served(before))
    assert served(await contest.counts()) == served(after)
    await void(stack, "undo", contest.key, done["void"], "--execute")
    assert await folded_counts(contest) == before
    assert await is_clean(stack, contest)
    (listed,) = (await void(stack, "list"))["voids"][-1:]
    assert (listed["contest"], listed["restored"], listed["still_voided"]) == (contest.key, 3, 0)
    assert early["accepted_at"] < bots[0]["accepted_at"]


@pytest.mark.secured
async def test_a_voided_voter_has_no_vote_left_and_the_api_shows_it(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    await votes(contest, 0, "ann")
    await void(stack, contest.key, "--all", "--execute")
    assert code(await contest.vote(0, "ann")) == (409, "participant_limit_reached")
    assert (await contest.allowance("ann"))["participants"][0]["used"] == 1
    repeat = await contest.vote(0, "ann", vote_id="ann")
    assert (repeat.status_code, repeat.headers["idempotent-replayed"]) == (200, "true")
    refused = await contest.remove("ann", "ann")
    assert code(refused) == (403, "vote_removal_not_allowed")
    assert "operator" in refused.json()["detail"]
    assert (await contest.counts())["count"] == 0
    assert await is_clean(stack, contest)


async def test_an_interrupted_operation_goes_on_under_its_name(
    api: Api, stack: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def half(deployment: Deployment, events: Sequence[tuple[int, VoidEvent]]) -> None:
        await append(deployment, events[:2])
        raise LogUnavailable("Kafka: away", retry_after_s=1)

    contest = await api.contest()
    await votes(contest, 0, "ann", "bob", "cid", "dan")
    key = contest.key
    with monkeypatch.context() as kafka:
        kafka.setattr(void_command, "append", half)
        result = await tally(stack, "void", key, "--all", "--reason", "why", "--execute")
    assert result.exit_code == 3
    (name,) = re.findall("resume with `tally void [0-9a-z]+ ... --void ([0-9a-f-]+) --execute`", result.stderr)
    rest = await void(stack, key, "--all", "--void", name, "--execute")
    assert (rest["void"], rest["votes"], rest["contest"]["count"]["after"]) == (name, 2, 0)
    (listed,) = (await void(stack, "list", key))["voids"]
    assert (listed["voided"], listed["reason"]) == (4, "why")
    with monkeypatch.context() as kafka:
        kafka.setattr(void_command, "append", half)
        result = await tally(stack, "void", "undo", key, name, "--execute")
    assert f"resume with `tally void undo {key} {name} --execute`" in result.stderr
    assert [(await void(stack, "undo", key, name, "--execute"))["votes"] for _ in range(2)] == [2, 0]
    assert (await contest.counts())["count"] == 4
    assert (await void(stack, key, "--all", "--void", name))["votes"] == 0


@pytest.mark.secured
async def test_a_replay_keeps_what_is_voided_and_what_can_be_undone(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    await votes(contest, 0, "ann", "bob", "cid")
    await votes(contest, 1, "dan")
    before = await folded_counts(contest)
    done = await void(stack, contest.key, "--participant", contest.participants[0], "--execute")
    voided = await folded_counts(contest)
    words = "--projection", "votes", "--execute"
    replayed = await tally(stack, "replay", "run", *words)
    assert replayed.exit_code == 0, replayed.output
    assert await folded_counts(contest) == voided
    assert (await contest.status("ann", "ann"))["status"] == "voided"
    await void(stack, "undo", contest.key, done["void"], "--execute")
    assert await folded_counts(contest) == before
    assert await is_clean(stack, contest)


async def test_voters_are_named_in_files_signed_in_and_anonymous_ones(
    api: Api, stack: Supervisor, tmp_path: Path
) -> None:
    contest = await api.contest(is_anonymous_voting_enabled=True)
    await votes(contest, 0, "ann", "bob", "cid", platform="ios")
    await contest.counts_with(*[await contest.vote(1, anonymous_id=voter) for voter in ("ann", "dan")])
    signed_in, anonymous = tmp_path / "voters", tmp_path / "anonymous"
    signed_in.write_text("ann\ndan\n")
    anonymous.write_text("ann\nbob\n")
    key = contest.key
    both = await void(stack, key, "--voters", str(signed_in), "--anonymous", str(anonymous))
    assert shown(both, "after") == dict(zip(contest.participants, (2, 1), strict=True))
    only = await void(stack, key, "--voters", str(signed_in), "--anonymous", str(anonymous), "--platform", "ios")
    assert only["votes"] == 1
    assert (await void(stack, key, "--source", "c-paid"))["votes"] == 0


async def test_a_sealed_contest_is_unsealed_first(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    await votes(contest, 0, "ann")
    done = await void(stack, contest.key, "--all", "--execute")
    await contest.end()
    assert (await tally(stack, "seal", contest.key, "--execute")).exit_code == 0
    for words in ((contest.key, "--all"), ("undo", contest.key, done["void"])):
        refused = await tally(stack, "void", *words, "--execute")
        assert refused.exit_code == 1
        assert "tally unseal" in refused.stderr


async def test_behind_the_close_it_waits_for_a_reopening(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    await votes(contest, 0, "ann", "bob")
    await contest.end()
    key = contest.key
    result = await tally(stack, "void", key, "--all", "--execute")
    assert result.exit_code == 0, result.output
    head, climbing, first, *_, undo, _, last = result.stdout.splitlines()
    assert head.split() == ["participant", "title", "votes", "rank", "voters"]
    assert climbing.split() == [contest.participants[1], "Participant", "1", "0", "2", "->", "1", "0"]
    assert first.split()[3:] == ["2", "->", "0", "1", "2", "->", "0"]
    assert last == "Recorded; the result does not change until `tally reopen`."
    assert undo.startswith(f"`tally void undo {key} ")
    assert (await contest.counts())["count"] == 2
    assert (await void(stack, key, "--all"))["votes"] == 0
    (listed,) = (await void(stack, "list", key))["voids"]
    assert (listed["voided"], listed["waiting"]) == (0, 2)
    reopened = await contest.client.post(
        f"/operations/contests/{contest.key}/reopen", json={"end": hours_from_now(1)}
    )
    assert reopened.status_code == 200, reopened.text
    await contest.reaches(count=0)
    assert (await void(stack, "undo", key, listed["void"], "--execute"))["votes"] == 2
    assert (await contest.counts())["count"] == 2
    assert await is_clean(stack, contest)


@pytest.mark.secured
async def test_a_voided_purchase_fits_and_is_refunded_for_good(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    record = await send(contest.client, purchase(contest, count=3))
    await wait_for_paid_votes(contest, 3)
    done = await void(stack, contest.key, "--source", "c-paid", "--execute")
    assert (await contest.counts())["count"] == 0
    found = json.loads((await tally(stack, "purchases", "reconcile", "--json")).stdout)
    assert found["voided"] >= 1
    assert record["key"] not in json.dumps(found)
    await refund(contest.client, record)
    await becomes(contest.client, record, "refunded")

    async def nothing_is_left_to_restore() -> bool:
        return bool((await void(stack, "undo", contest.key, done["void"]))["votes"] == 0)

    await eventually(nothing_is_left_to_restore)  # the votes are taken back after the purchase is marked
    assert (await void(stack, "undo", contest.key, done["void"], "--execute"))["votes"] == 0
    assert (await contest.allowance("buyer", "c-paid"))["contest"]["used"] == 0
    assert await is_clean(stack, contest)


async def test_mistakes_are_named_with_the_way_out(api: Api, stack: Supervisor) -> None:
    contest = await api.contest()
    key = contest.key
    for words, way_out in (
        ((key,), "--all"),
        ((key, "--all", "--source", "c-free"), "--all"),
        ((key, "--source", "sms"), "allow_decrease"),
        ((key, "--platform", "tv"), "ios"),
        ((key, "--address", "nowhere"), "nowhere"),
        ((key, "--address", BOTS), "it has no votes yet"),
        ((key, "--participant", "p"), "no participant"),
        ((key, "--from", "yesterday"), "--from"),
        ((key, "--all", "--void", "v"), "omit --void"),
        (("nowhere", "--all"), "not found"),
        (("undo", contest.key, "nothing"), "tally void list"),
        (("list", "nowhere"), "not found"),
        ((), "CONTEST"),
    ):
        result = await tally(stack, "void", *words)
        assert result.exit_code == 2, words
        assert way_out in " ".join(result.stderr.replace("│", " ").split()), words
    assert not list(stack.data_dir.rglob(contest.key))
