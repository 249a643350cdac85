"""`tally replay` rebuilds wrong views from the log; readers see only correct counts."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.services.cli.replay.context import ReplayContext, count, voted
from tests.support.clients.voting import Api, Contest

VOTERS = [f"voter {number}" for number in range(12)]
SPOILT = 100


async def a_spoilt_contest(api: Api, context: ReplayContext) -> Contest:
    """Of which readers are shown a hundred votes too many."""
    contest = await api.contest(free={"max_participant": 2})
    await voted(contest, *VOTERS)
    await context.spoil(contest, by=SPOILT)
    # the same voters: readers fetch again only what has changed, and that must be among it
    await voted(contest, *VOTERS)
    assert await count(contest) == 2 * len(VOTERS) + SPOILT
    return contest


def changes_of(rebuilt: dict[str, Any], contest: Contest) -> list[tuple[str, int, int]]:
    return [
        (change["participant"], change["before"]["count"], change["after"]["count"])
        for change in rebuilt["verified"]["changes"]
        if change["contest"] == contest.key
    ]


def without_memory(part: dict[str, Any]) -> dict[str, Any]:
    """Valkey estimates it from samples of its own choice."""
    return {name: value for name, value in part.items() if name != "memory_bytes"}


async def test_a_plan_says_how_many_events_how_long_and_how_much_memory_and_changes_nothing(
    api: Api, context: ReplayContext
) -> None:
    await voted(await api.contest(), *VOTERS)
    planned = await context.run_json("replay", "plan")
    parts = {part["projection"]: part for part in planned["parts"]}
    assert list(parts) == ["catalogue", "test", "votes", "purchases"]
    positions = (await context.run_json("verify"))["positions"]
    assert parts["votes"]["events"] == sum(at["offset"] for at in positions.values())
    assert (parts["votes"]["processed"], parts["votes"]["resumes"], parts["votes"]["kept"]) == (0, None, 0)
    assert parts["votes"]["schema"] == parts["votes"]["code_schema"]
    assert planned["events_per_s"] > 0
    assert 0 < planned["memory_bytes"] < planned["free_bytes"]
    assert planned["fits"]
    without_execute = (await context.run_json("replay", "run"))["parts"]
    assert [without_memory(part) for part in without_execute] == [
        without_memory(part) for part in planned["parts"]
    ]
    assert not any(one.others for one in (await context.generations().read_all()).values())
    plain = await context.of_votes("plan")
    assert plain.exit_code == 0
    assert plain.stdout.split()[:2] == ["projection", "events"]
    assert "`tally replay run --projection votes --execute` runs it" in plain.stdout
    outdated = await context.run("replay", "run", "--outdated", "--execute")
    assert outdated.stdout == "There is nothing to rebuild.\n"


async def test_one_partition_is_rebuilt_alone(api: Api, context: ReplayContext) -> None:
    contest = await a_spoilt_contest(api, context)
    live = await context.live()
    wrong = await context.run_json("verify", code=1)
    partition = str(wrong["differences"][0]["partition"])
    planned = await context.of_votes("plan", "--partition", partition)
    assert f"`tally replay run --projection votes --partition {partition} --execute`" in planned.stdout
    rebuilt = await context.replay("--partition", partition)
    assert await count(contest) == 24
    found = await context.generations().read_all()
    assert {number for number, one in found.items() if one.live.number != live} == {int(partition)}
    undone = await context.run_json("replay", "rollback", "--projection", "votes", "--execute")
    back = {"projection": "votes", "generation": rebuilt["generation"], "former": [live], "partitions": 1}
    assert undone["rolled_back"] == [back]
    assert await count(contest) == 124
    await context.replay()
    assert await count(contest) == 24


async def test_a_swap_that_was_interrupted_goes_on(api: Api, context: ReplayContext) -> None:
    contest = await a_spoilt_contest(api, context)
    begun = await context.begun()
    [part] = (await context.run_json("replay", "plan", "--projection", "votes"))["parts"]
    assert (part["resumes"], 0 < part["processed"] <= part["events"]) == (begun, True)
    for partition in range(context.deployment.partitions - 1):
        assert (await context.generations().swap(partition, begun)).done
    rebuilt = await context.replay()
    assert (rebuilt["resumed"], rebuilt["swapped"], rebuilt["generation"]) == (True, True, begun)
    assert await count(contest) == 24
    assert (await context.run_json("verify", contest.key))["equal"]


async def test_a_replay_repairs_what_verify_finds_a_rollback_brings_it_back_and_drop_frees_its_memory(
    api: Api, context: ReplayContext
) -> None:
    contest = await a_spoilt_contest(api, context)
    former, right = await context.live(), 2 * len(VOTERS)
    wrong = await context.run_json("verify", contest.key, code=1)
    assert {one["participant"] for one in wrong["differences"]} == {contest.participants[0]}
    rebuilt = await context.replay()
    assert await count(contest) == right, "what is served was not read again"
    assert (rebuilt["swapped"], rebuilt["resumed"], rebuilt["verified"]["equal"]) == (True, False, True)
    assert changes_of(rebuilt, contest) == [(contest.participants[0], right + SPOILT, right)]
    new = rebuilt["generation"]
    assert await context.live() == new > former
    assert (await context.run_json("verify"))["equal"]
    preview = await context.of_votes("rollback")
    assert (preview.exit_code, await context.live()) == (0, new)
    assert f"votes: generation {new} -> {former} in 4 partitions" in preview.stdout
    await context.of_votes("rollback", "--execute")
    assert (await context.live(), await count(contest)) == (former, 124)
    await voted(contest, "last")
    assert await count(contest) == 125
    assert (await context.of_votes("rollback", "--execute")).exit_code == 0
    again = await context.replay()
    assert (again["generation"], await count(contest)) == (new + 1, 25)
    assert not await context.keys_of(new), "one former view is kept"
    previewed = await context.run_json("replay", "drop", "--projection", "votes")
    assert {row["generation"] for row in previewed["dropped"]} == {former}
    assert await context.keys_of(former)
    dropped = await context.run_json("replay", "drop", "--projection", "votes", "--execute")
    assert dropped["keys"] > 0
    assert not await context.keys_of(former)
    assert await count(contest) == 25
    for command in ("rollback", "drop"):
        nothing = await context.of_votes(command, "--execute")
        assert (nothing.exit_code, nothing.stdout.startswith("There is nothing to ")) == (0, True), command
    unknown = await context.run("replay", "drop", "--generation", str(new + 9), "--execute")
    assert (unknown.exit_code, str(new + 9) in unknown.stderr) == (2, True)


async def test_what_does_not_equal_the_log_is_not_read(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *VOTERS)
    live, begun = await context.live(), await context.begun()
    await context.spoil(contest, begun)
    rebuilt = await context.replay(code=1)
    assert (rebuilt["resumed"], rebuilt["swapped"], rebuilt["generation"]) == (True, False, begun)
    assert rebuilt["verified"]["report"]["difference_count"] > 0
    assert (await context.live(), await count(contest)) == (live, len(VOTERS))
    plain = await context.of_votes("run", "--execute", "--accept-differences")
    assert plain.exit_code == 1
    assert f" {contest.participants[0]} " in plain.stdout
    assert "It does not equal the log and was not swapped in. `tally replay drop` deletes it." in plain.stdout
    await context.run("replay", "drop", "--execute")
    assert (await context.replay())["swapped"]
    assert (await context.run_json("verify"))["equal"]


async def test_two_at_once_make_one_generation(api: Api, context: ReplayContext) -> None:
    contest = await api.contest()
    await voted(contest, *map(str, range(9)))
    command = [sys.executable, "-m", "services.cli", "replay", "run", "--projection", "votes", "--execute"]
    where = ["--data-dir", str(context.supervisor.data_dir)]
    root = Path(__file__).parents[4]
    both = [await asyncio.create_subprocess_exec(*command, *where, cwd=root) for _ in range(2)]
    assert 0 in await asyncio.gather(*(process.wait() for process in both))
    assert await count(contest) == 9
    assert (await context.run_json("verify", contest.key))["equal"]
