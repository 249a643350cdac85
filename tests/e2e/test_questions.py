"""`tally ask`: other rules, other votes, two moments, patterns, and a voter's contests."""

from datetime import UTC, datetime
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.voting import Api, Contest, hours_from_now

BOTS = "203.0.113.7"


async def ask(stack: Supervisor, *arguments: str) -> dict[str, Any]:
    return await tally_json(stack, "ask", *arguments)


def places(answer: dict[str, Any]) -> dict[str, tuple[list[int], list[int]]]:
    return {
        row["participant_key"]: (list(row["count"].values()), list(row["rank"].values()))
        for row in answer["participants"]
    }


async def voted(contest: Contest, participant: int, voter: str, **members: Any) -> dict[str, Any]:
    answer = await contest.vote(participant, voter, **members)
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.secured
async def test_questions_about_a_sealed_contest_are_answered_and_change_nothing(
    api: Api, stack: Supervisor
) -> None:
    contest = await api.contest(free={"max_participant": 2})
    first, second, *_ = contest.participants
    await voted(contest, 0, "ann", count=2)
    last = await voted(contest, 0, "bot", ip=BOTS)
    await contest.reaches(count=3)
    between = datetime.now(UTC).isoformat()
    await voted(contest, 1, "bob", count=2)
    await contest.reaches(count=5)
    await contest.change(end=hours_from_now(0))
    assert (await tally(stack, "seal", contest.key, "--execute")).exit_code == 0

    without = await ask(stack, "recount", contest.key, "--address", "203.0.113.0/28")
    assert places(without) == {first: ([3, 2], [1, 1]), second: ([2, 2], [2, 1])}
    stricter = await ask(
        stack, "recount", contest.key, "--set", "free.max_participant=1", "--set", "free.weight=3"
    )
    assert places(stricter) == {first: ([3, 3], [1, 1]), second: ([2, 0], [2, 2])}
    assert len(stricter["unknown"]) == 1
    moments = await ask(stack, "between", contest.key, between, hours_from_now(1))
    assert places(moments) == {first: ([3, 3], [1, 1]), second: ([0, 2], [2, 2])}
    assert moments["contest"]["unique_voter_count"] == {"before": 2, "after": 3}

    found = (await ask(stack, "patterns", contest.key, "--least", "1"))["patterns"]
    [address] = [row for row in found if row["kind"] == "address"]
    assert (address["votes"], address["participant"], address["share"]) == (1, first, "33.3%")
    again = await ask(stack, *address["command"].split()[2:])
    assert places(again) == places(without), "the pseudonym selects what the address selects"
    mine = await ask(stack, "voter", "--account", "dev", "--voter", "bot")
    [row] = [row for row in mine["contests"] if row["contest"] == contest.key]
    assert (row["cast"], row["counted"], row["first"]) == (1, 1, last["accepted_at"])

    text = (await tally(stack, "ask", "recount", contest.key, "--address", BOTS)).stdout
    assert "Nothing was changed." in text
    assert (await contest.counts())["count"] == 5


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--set", "free.max_participant=many"),
        ("--set", "free.weight=-1"),
        ("--set", "no.rule=1"),
        ("--source", "sms"),
        ("--address", "10.0.0.0/8"),
    ],
)
async def test_a_question_that_makes_no_sense_is_refused(
    api: Api, stack: Supervisor, arguments: tuple[str, ...]
) -> None:
    contest = await api.contest()
    asked = await tally(stack, "ask", "recount", contest.key, *arguments)
    assert asked.exit_code == 2, asked.output
