"""`tally count` and `tally log`: a contest at any instant, and its history, from the log alone."""

import asyncio
import json
import signal
import sys
from functools import partial
from typing import Any

import pytest

from libs.local_stack.supervisor import Supervisor
from tests.support.clients.commands import tally, tally_json
from tests.support.clients.positions import decoded
from tests.support.clients.sources import Source
from tests.support.clients.voting import Api, Contest
from tests.support.eventually import eventually


async def counted(stack: Supervisor, contest: Contest, *arguments: str) -> dict[str, Any]:
    return await tally_json(stack, "count", contest.key, "--sources", *arguments)


async def steps(stack: Supervisor, contest: Contest, *arguments: str) -> list[dict[str, Any]]:
    result = await tally(stack, "log", contest.key, "--json", *arguments)
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


async def a_history(api: Api) -> Contest:
    """Votes of three voters, one of them removed again, and a source that reports."""
    contest = await api.contest(is_anonymous_voting_enabled=True)
    sms = Source(contest, "sms")
    await sms.map("A", is_in_total=True)
    votes: list[tuple[int, dict[str, Any]]] = [
        (0, {"voter_id": "ann", "vote_id": "first"}),
        (1, {"voter_id": "bob"}),
        (0, {"anonymous_id": "ann"}),
    ]
    answers = [await contest.vote(participant, **voter) for participant, voter in votes]
    assert {answer.status_code for answer in answers} == {201}
    removed = await contest.client.delete(f"{contest.path}/votes/first", params={"voter_id": "ann"})
    assert removed.status_code == 204, removed.text
    await contest.counts_with(*answers, removed, await sms.report(A=5))
    return contest


def outcomes(shown: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(step["type"], step["outcome"]) for step in shown]


async def test_a_log_is_filtered_by_what_a_vote_has_and_ends_at_its_limit(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    vote = await contest.vote(1, "eve", ip="203.0.113.9")
    await contest.counts_with(vote)

    async def shown(*arguments: str) -> list[tuple[str, str]]:
        return outcomes(await steps(stack, contest, *arguments))

    cast = ("VoteCast", "counted")
    assert await shown("--participant", contest.participants[1]) == [cast, cast]
    assert await shown("--address", "203.0.113.0/24") == [cast]
    assert await shown("--address", "203.0.113.10") == []
    assert {kind for kind, _ in await shown("--source", "sms")} == {"SourceReported"}
    assert await shown("--limit", "2") == (await shown())[:2]


async def test_a_count_of_now_is_the_very_record_that_the_api_serves(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)

    async def of_all_that_is_served() -> dict[str, Any]:
        """Return the count if it is as new as what the API serves.

        What the API serves may be older: it does not change when another contest's does.
        """
        found = await counted(stack, contest)
        token = (await api.client.get(f"{contest.path}/vote_updates")).headers["tally-position"]
        served = await decoded(stack.stack["storage_url"], token)
        assert all(offset <= found["positions"][str(partition)]["offset"] for partition, offset in served.items())
        return found

    found = await eventually(of_all_that_is_served)
    assert found["record"] == await contest.counts()
    assert found["record"]["count"] == 2 + 5
    assert all(at["log_id"] for at in found["positions"].values())
    assert found["last_event"] >= found["record"]["updated"]


@pytest.mark.secured
@pytest.mark.clustered
async def test_at_the_time_of_each_event_the_count_is_what_the_log_tells(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    shown = await steps(stack, contest)
    assert outcomes(shown) == [
        ("VoteCast", "counted"),
        ("VoteCast", "counted"),
        ("VoteCast", "counted"),
        ("VoteRemoved", "removed"),
        ("SourceReported", "taken over"),
    ]
    totals = [step["contest_counts"]["after"]["contest"] for step in shown[:-1]]
    assert totals == [1, 2, 3, 2]
    assert shown[-1]["contest_counts"]["after"] == {"source": 5, "mapped_ids": {"A": 5}}
    found = [await counted(stack, contest, "--at", step["time"]) for step in shown]
    assert [each["record"]["count"] for each in found] == [1, 2, 3, 2, 7]
    assert [each["at"] for each in found] == [step["time"] for step in shown]
    for each, step in zip(found, shown, strict=True):
        assert each["record"]["updated"] == each["last_event"] == step["time"]
        assert each["positions"][str(step["partition"])]["offset"] == step["offset"] + 1


async def test_people_get_a_ranking_and_mistakes_are_named(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    shown = await tally(stack, "count", contest.key)
    assert shown.exit_code == 0, shown.output
    name, head, first = shown.stdout.splitlines()[:3]
    assert name.endswith(f"({contest.key})")
    assert head.split()[:5] == ["rank", "participant", "title", "votes", "share"]
    assert first.split()[:6] == ["1", contest.participants[0], "Participant", "0", "6", "85.7%"]
    for arguments in (
        ("count", "nowhere"),
        ("count", contest.key, "--at", "yesterday"),
        ("log", "nowhere"),
        ("log", contest.key, "--voter", "a", "--anonymous", "a"),
        ("log", contest.key, "--partition", "99"),
        ("log", contest.key, "--follow", "--until", "2020-01-01T00:00:00Z"),
    ):
        assert (await tally(stack, *arguments)).exit_code == 2, arguments


@pytest.mark.secured
@pytest.mark.clustered
async def test_voters_are_all_who_voted_and_it_is_said_wherever_they_are_counted(
    api: Api, stack: Supervisor
) -> None:
    """Also those whose votes were all for a participant that was rejected since."""
    contest = await api.contest()
    for participant, voter in ((0, "ann"), (1, "bob")):
        assert (await contest.vote(participant, voter)).status_code == 201
    rejected = await api.client.patch(f"/participants/{contest.participants[1]}", json={"status": "rejected"})
    assert rejected.status_code == 200
    await contest.reaches(count=1, unique_voter_count=2)
    shown = (await tally(stack, "count", contest.key)).stdout
    assert "1 vote of 2 voters" in shown
    assert "Voters are counted even if they voted only for rejected participants." in shown
    page = (await api.client.get(f"/dashboard{contest.path}")).text
    assert "All voters, including those whose votes were only for participants rejected later" in page
    schemas = (await api.client.get("/openapi.json")).json()["components"]["schemas"]
    assert "rejected later" in schemas["VoteCount"]["properties"]["unique_voter_count"]["description"]


async def test_the_log_of_one_voter_is_that_partition_alone(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    ann = await steps(stack, contest, "--voter", "ann")
    assert outcomes(ann) == [("VoteCast", "counted"), ("VoteRemoved", "removed")]
    assert {step["event"]["vote_id"] for step in ann} == {"first"}
    assert [step["contest_counts"] for step in ann] == [None, None]
    (anonymous,) = await steps(stack, contest, "--anonymous", "ann")
    assert anonymous["event"]["voter"] != ann[0]["event"]["voter"]
    assert await steps(stack, contest, "--voter", "never voted") == []
    of_partition = await steps(stack, contest, "--partition", str(ann[0]["partition"]))
    assert [step for step in of_partition if step["event"].get("vote_id") == "first"] == ann


@pytest.mark.clustered
async def test_times_cut_the_log_where_they_stand_and_counts_go_on_from_there(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    shown = await steps(stack, contest)
    assert await steps(stack, contest, "--from", shown[2]["time"]) == shown[2:]
    assert await steps(stack, contest, "--until", shown[2]["time"]) == shown[:2]
    printed = await tally(stack, "log", contest.key)
    lines = printed.stdout.splitlines()
    assert "VoteCast counted" in lines[0]
    assert lines[0].endswith(f"Participant 0 ({contest.participants[0]}) 0 -> 1; contest 0 -> 1")
    scope, legend, number = printed.stderr.splitlines()
    assert legend.startswith("Each line: time, partition/offset, event, outcome")
    assert scope.endswith(f"({contest.key}). The counts are those of the whole contest, by append time.")
    assert number == "5 of 5 events."


@pytest.mark.secured
async def test_who_follows_sees_a_vote_that_is_cast_later_until_interrupted(api: Api, stack: Supervisor) -> None:
    contest = await a_history(api)
    words = ["log", contest.key, "--follow", "--json", "--data-dir", str(stack.data_dir)]
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "services.cli", *words),
        stdout=asyncio.subprocess.PIPE,
        # a suite that runs in the background was started to ignore it, and so would be what it starts
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout is not None
    output = process.stdout
    shown: list[dict[str, Any]] = []

    async def until(many: int) -> None:
        while len(shown) < many:
            shown.append(json.loads(await output.readline()))

    async with asyncio.timeout(120):
        await until(5)
        await contest.vote(1, "later")
        await until(6)
    assert shown[-1]["outcome"] == "counted"
    assert shown[-1]["contest_counts"]["after"] == {"contest": 3, "participants": {contest.participants[1]: 2}}
    process.send_signal(signal.SIGINT)
    async with asyncio.timeout(120):
        assert await process.wait() == 0
