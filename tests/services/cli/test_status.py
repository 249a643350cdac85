"""`tally status`: the log's own ends and times against the views' positions."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from libs.certificates.service import Sealed
from libs.deployment.deployment import Deployment
from libs.monitoring.collector import StatusCollector
from libs.monitoring.health_problems import notes_of, problems_of
from libs.monitoring.status import PartitionStatus, Status
from libs.storage.object_store import StorageUnavailable
from libs.tally.events import Fence
from libs.views.generations.generations import Generations, ProjectionName, State, projections_of
from libs.views.valkey.function_loading import load_functions
from services.cli import present_servers
from services.cli.commands.status import parts_of, readings
from services.cli.output import Block, show
from tests.support.builders.contests import a_cast
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.clients.commands import run, use_deployment
from tests.support.eventually import eventually
from tests.support.servers.deployments import READ_S, read_status
from tests.support.servers.projector_metrics import projector_metrics
from tests.support.servers.versions import OTHER_LAYOUT, functions_of_another_version


@pytest.fixture(autouse=True)
def nothing_stalls(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long a test takes: no projector folds what it does not fold itself."""
    monkeypatch.setattr("libs.monitoring.lag.STALLED_MS", 3_600_000)


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str, tmp_path: Path) -> AsyncIterator[FoldedLog]:
    pids = {"gateway": os.getpid(), "projector": 2**22}
    async with folded_log(kafka, valkey_address, namespace, pids=pids) as log:
        log.stack = replace(log.stack, storage_url=str(tmp_path))
        yield log


def votes(status: Status) -> list[PartitionStatus]:
    return status.of(ProjectionName.VOTES)


def generations_of(log: FoldedLog) -> Generations:
    return projections_of(log.valkey, log.stack.namespace, log.stack.partitions)[ProjectionName.VOTES]


def lines_of(text: Iterable[Block]) -> list[str]:
    file = StringIO()
    show(text, Console(file=file))
    return file.getvalue().splitlines()


def problems(status: Status) -> set[tuple[str, str]]:
    return {(problem.kind, problem.where) for problem in problems_of(status)}


async def test_lag_is_what_the_log_has_and_the_view_has_not(log: FoldedLog) -> None:
    await log.append([a_cast(), a_cast(), Fence(3), a_cast(), b"poison"])
    await log.fold()
    await log.append([a_cast(vote_id="more"), a_cast(vote_id="yet more")])
    status = await read_status(log.stack)
    first, second = votes(status)
    assert (first.position, first.end, first.lag) == (6, 8, 2)
    assert (first.quarantined, first.dropped, first.generation) == (1, 0, 1)
    assert (first.fenced, first.duplicates, first.overruled, first.open) == (1, 1, 0, False)
    assert (second.position, second.end, second.lag) == (0, 1, 1)
    totals = status.totals(ProjectionName.VOTES)
    assert (totals.lag, totals.shut, totals.quarantined) == (3, 2, 1)
    assert [status.totals(fold).lag for fold in ProjectionName] == [3, 2, 4, 4]
    assert {part.name: part.alive for part in status.parts} == {"gateway": True, "projector": False}
    assert problems(status) == {("part", "projector"), ("gate", "votes all"), ("quarantine", "votes 0")}


async def test_lag_in_seconds_is_the_age_of_the_first_record_that_is_not_folded(log: FoldedLog) -> None:
    await log.append([a_cast()])
    before = time.time()
    await log.fold()
    await log.append([a_cast(vote_id="more")])
    appended = time.time()
    async with Deployment(log.stack) as deployment:
        collector = StatusCollector(deployment)

        async def two_seconds_behind() -> tuple[float, PartitionStatus, float] | None:
            asked = time.time()
            row = votes(await collector.collect(within_s=READ_S))[0]
            answered = time.time()
            await log.append([a_cast(vote_id="always more")])
            return (asked, row, answered) if row.lag_s > 1.5 else None

        found = await eventually(two_seconds_behind)
    assert found is not None
    asked, row, answered = found
    assert before - 1 < answered - row.lag_s
    assert asked - row.lag_s < appended + 0.1
    assert row.last_event is not None
    assert row.last_event / 1000 < answered - row.lag_s
    assert row.stalled_since is None
    await log.fold()
    folded = votes(await read_status(log.stack))[0]
    assert (folded.lag, folded.lag_s) == (0, 0)


async def test_a_view_that_stands_is_stalled_and_one_that_moves_is_not(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.monitoring.lag.STALLED_MS", 300)
    await log.append([a_cast()])
    await log.fold()
    await log.append([a_cast(vote_id=str(n)) for n in range(5)])

    async def all_stand() -> bool:
        return ("stalled", "votes all") in problems(await read_status(log.stack))

    await eventually(all_stand)
    async with Deployment(log.stack) as deployment:
        collector = StatusCollector(deployment)
        await collector.collect(within_s=READ_S)
        await log.valkey.call("HSET", log.key("g1:position"), "offset", 4)
        moved, stands = votes(await collector.collect(within_s=READ_S))
        assert (moved.lag, moved.lag_s > 0.3, moved.stalled_since) == (3, True, None)
        assert moved.processed_per_s
        assert stands.stalled_since is not None

        async def stalled_again() -> bool:
            row = votes(await collector.collect(within_s=READ_S))[0]
            return row.stalled_since is not None and row.processed_per_s == 0

        await eventually(stalled_again)


async def test_a_replays_progress_covers_all_its_partitions_and_a_broken_generation_is_a_problem(
    log: FoldedLog,
) -> None:
    await log.append([a_cast(vote_id=str(n)) for n in range(9)])
    await log.fold()
    generations = generations_of(log)
    for partition in (0, 1):
        await generations.open(partition, 2)
    async with Deployment(log.stack) as deployment:
        collector = StatusCollector(deployment)
        status = await collector.collect(within_s=READ_S)
        (other,), (begun,) = votes(status)[0].generations, status.beside
        assert (other.number, other.state, other.position, other.behind) == (2, State.BUILDING, 0, 10)
        assert (begun.projection, begun.generation, begun.partitions) == (ProjectionName.VOTES, 2, 2)
        assert (begun.state, begun.processed, begun.end) == (State.BUILDING, 0, 11)
        assert (begun.processed_per_s, begun.left_s) == (None, None)
        assert ("generation", "votes 0") not in problems(status)
        await log.valkey.call("HSET", log.key("g2:position"), "log", "x", "offset", 5)
        (moved,) = (await collector.collect(within_s=READ_S)).beside
        assert (moved.processed, moved.behind) == (5, 5)
        assert moved.processed_per_s
        assert moved.left_s == pytest.approx(6 / moved.processed_per_s)
        (stands,) = (await collector.collect(within_s=READ_S)).beside
        assert (stands.processed_per_s, stands.left_s) == (0, None)
    key = f"{generations.base(0)}:generations"
    row = await log.valkey.call("HGET", key, "2")
    await log.valkey.call("HSET", key, "2", row.replace(b"\xa8building", b"\xa6broken"))
    assert ("generation", "votes 0") in problems(await read_status(log.stack))


async def test_a_task_of_the_projector_that_stopped_is_a_problem(log: FoldedLog) -> None:
    with projector_metrics() as (url, up):
        up.labels("votes").set(1)
        up.labels("purchases").set(0)
        described = {"pids": {"projector": os.getpid()}, "metrics_urls": {"projector": url}}
        stack = replace(log.stack, description=log.stack.description | described)
        [problem] = [one for one in problems_of(await read_status(stack)) if one.kind == "part"]
        assert (problem.where, problem.detail) == ("projector", "stopped or failing in it: purchases")
        async with Deployment(stack) as deployment, aclosing(readings(deployment, lambda: described)) as watched:
            first = await anext(watched)
        assert f"{problem.where}: {problem.detail}; {problem.remedy}" in lines_of(first.text)
        up.labels("purchases").set(1)
        assert ("part", "projector") not in problems(await read_status(stack))
    assert ("part", "projector") in problems(await read_status(stack)), "it accepts no connections"


async def test_votes_of_another_layout_are_its_one_problem_and_its_generation_is_not_broken(
    log: FoldedLog, tmp_path: Path
) -> None:
    await log.append([a_cast()])
    await log.fold()
    await log.fold(1)
    with functions_of_another_version(tmp_path / "newer", OTHER_LAYOUT):
        await load_functions(log.valkey)
        assert await generations_of(log).open(0, 2)
        status = await read_status(log.stack)
        assert problems(status) - {("part", "projector")} == {("layout", "votes all")}
        assert status.totals(ProjectionName.VOTES).shut is None
    [other] = votes(await read_status(log.stack))[0].generations
    assert other.state is State.OTHER_LAYOUT
    assert "another version's layout" in notes_of(await read_status(log.stack))[0]


async def test_an_object_store_that_is_away_is_named_beside_all_partitions(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def is_away(*_: object) -> list[Sealed]:
        raise StorageUnavailable("the bucket does not answer", retry_after_s=1)

    monkeypatch.setattr("libs.monitoring.collector.sealed_contests", is_away)
    status = await read_status(log.stack)
    assert ("away", "object store") in problems(status)
    assert len(votes(status)) == log.stack.partitions


async def test_sealed_contests_that_are_not_read_in_time_are_named(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.monitoring.collector.sealed_contests", lambda *_: asyncio.Event().wait())
    async with Deployment(log.stack) as deployment:
        status = await StatusCollector(deployment).collect(within_s=6.0)
    assert ("away", "sealed contests") in problems(status)


async def test_the_command_says_what_is_wrong_and_ends_with_1(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_deployment(monkeypatch, log.stack)
    monkeypatch.setattr("libs.monitoring.health_problems.BEHIND_S", 60.0)  # no process folds the purchases here
    for limit in ("WITHIN_S", "SOON_S", "FIND_S"):
        monkeypatch.setattr(present_servers, limit, READ_S)
    monkeypatch.setattr(present_servers, "REQUEST_MS", 60_000)

    status = partial(run, "status", "--data-dir", "none")
    plain = await status()
    assert plain.exit_code == 1
    lines = plain.stdout.splitlines()
    assert lines[0].startswith("votes all: voting paused")
    assert lines[2].split()[:4] == ["projection", "part", "position", "lag"]
    assert lines[3].split()[:4] == ["votes", "all", "0", "2"]
    assert [line.split()[1] for line in lines if line.startswith("purchases")] == ["all"]
    found = json.loads((await status("--json")).stdout)
    assert set(found) == {"at", "projections", "totals", "generations", "parts", "sealed", "problems", "notes"}
    assert {fold: len(rows) for fold, rows in found["projections"].items()} == {
        "votes": 2,
        "purchases": 2,
        "catalogue": 4,
        "test": 4,
    }
    assert set(found["projections"]["votes"][0]) == {
        "partition", "generation", "position", "end", "lag", "lag_s", "last_event", "stalled_since", "quarantined",
        "dropped", "schema", "code_schema", "generations", "processed_per_s", "open", "incarnation", "pending",
        "oldest_pending_s", "fenced", "duplicates", "overruled", "valkey_clock_off_s", "clock_ahead_s",
        "oldest_open",
    }  # fmt: skip
    assert [problem["kind"] for problem in found["problems"]] == ["gate"]


def test_a_process_that_is_gone_is_a_problem_that_says_when_it_is_started_again() -> None:
    gone = {"pids": {"projector": 2**22}}
    restarts = {"restarts": {"projector": 1000}}
    ends = {"ends": {"projector": {"times": 1, "at": 500, "reason": "by SIGKILL"}}}
    ended = f"process {2**22} has ended"
    killed = f"{ended} at 1970-01-01T00:00:00.500000Z (by SIGKILL)"
    again = f"{killed}, within seconds of its start; it is started again at 1970-01-01T00:00:01.000000Z"
    for stack, detail in ((gone, ended), (gone | ends, killed), (gone | ends | restarts, again)):
        (part,) = parts_of(stack)
        assert not part.alive
        (problem,) = problems_of(Status(0, [], [part], []))
        assert problem.detail == detail
