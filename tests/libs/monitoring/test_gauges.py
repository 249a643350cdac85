"""Metrics of views and log: every outcome of a vote, and no value if it is unknown."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.monitoring import gauges
from libs.monitoring.collector import StatusCollector
from libs.monitoring.gauges import open_gauges
from libs.monitoring.status import PartitionStatus
from libs.tally.events import ContestClosed, Event, Fence
from libs.telemetry.metrics import REGISTRY
from libs.views.generations.generations import ProjectionName, projections_of
from libs.views.valkey import client
from tests.support.builders.contests import a_cast, a_removal, a_void
from tests.support.builders.folded_log import FoldedLog, folded_log

EVERYTHING: list[Event | bytes] = [
    a_cast(voter="counts"),
    a_cast(voter="counts"),
    a_cast(voter="greedy", max_participant=1, max_contest=1),
    a_cast(voter="greedy", max_participant=1, max_contest=1, vote_id="too many"),
    a_cast(voter="removes"),
    a_removal(voter="removes"),
    a_cast(voter="voided"),
    a_void(voter="voided"),
    b"poison",
    a_cast(voter="elsewhere", contest="another"),
    ContestClosed("contest", 1),
    a_cast(voter="late"),
    a_cast(voter="later"),
    Fence(3),
    a_cast(voter="fenced"),
]


@pytest.fixture
async def log(kafka: str, valkey_address: str, namespace: str) -> AsyncIterator[FoldedLog]:
    async with folded_log(kafka, valkey_address, namespace) as log:
        yield log


@pytest.fixture(autouse=True)
def on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gauges, "PATIENCE_S", 30)


@asynccontextmanager
async def opened(stack: DeploymentAddresses, **changes: Any) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """The gauges of a process of its own."""
    async with (
        Deployment(replace(stack, storage_url="memory://", **changes)) as deployment,
        open_gauges(deployment) as refresh,
    ):
        yield refresh


async def look(stack: DeploymentAddresses) -> None:
    async with opened(stack) as refresh:
        await refresh()


def of_topic(name: str, stack: DeploymentAddresses, partition: int | None = 0, **labels: str) -> float | None:
    place = {"topic": f"{stack.namespace}.votes"} | ({} if partition is None else {"partition": str(partition)})
    return REGISTRY.get_sample_value(name, place | labels)


def of_ledger(name: str, **labels: str) -> float | None:
    return REGISTRY.get_sample_value(name, {"partition": "0"} | labels)


async def test_each_status_of_a_vote_is_counted(log: FoldedLog) -> None:
    await log.append(EVERYTHING)
    await log.fold()
    await look(log.stack)
    counted = {
        status: of_ledger("tally_votes", status=status)
        for status in ("counted", "overruled", "removed", "replaced", "voided", "late")
    }
    assert counted == {"counted": 3, "overruled": 1, "removed": 1, "replaced": 0, "voided": 1, "late": 2}
    assert of_ledger("tally_votes_fenced") == 1
    assert of_ledger("tally_votes_duplicate") == 1
    assert of_topic("tally_quarantined_records", log.stack) == 1
    assert of_ledger("tally_gate_open") == 0
    assert (of_ledger("tally_votes_pending"), of_ledger("tally_votes_pending_oldest_seconds")) == (0, 0)
    assert (of_ledger("tally_clock_ahead_seconds"), of_ledger("tally_valkey_clock_off_seconds")) == (0, 0)


async def test_lag_is_measured_in_records_and_seconds(log: FoldedLog) -> None:
    await log.append([a_cast()])
    await log.fold()
    await log.append([a_cast(vote_id="more"), a_cast(vote_id="yet more")])
    await look(log.stack)
    assert of_topic("tally_view_position", log.stack) == 2
    assert of_topic("tally_log_end", log.stack) == 4
    assert of_topic("tally_view_lag_records", log.stack) == 2
    seconds = of_topic("tally_view_lag_seconds", log.stack)
    assert seconds is not None
    assert 0 < seconds < 10
    assert of_topic("tally_view_stalled", log.stack) == 0
    await log.fold()
    await look(log.stack)
    assert of_topic("tally_view_lag_records", log.stack) == 0
    assert of_topic("tally_view_lag_seconds", log.stack) == 0


async def test_a_replay_s_progress_is_computed_from_its_generations(log: FoldedLog) -> None:
    await log.append([a_cast(vote_id=str(n)) for n in range(7)])
    await log.fold()
    await look(log.stack)
    assert of_topic("tally_replay_progress_ratio", log.stack, None) == 1
    generations = projections_of(log.valkey, log.stack.namespace, log.stack.partitions)[ProjectionName.VOTES]
    await generations.open(0, 2)
    await log.valkey.call("HSET", log.key("g2:position"), "log", "x", "offset", 2)
    await look(log.stack)
    assert of_topic("tally_replay_progress_ratio", log.stack, None) == 0.25
    assert of_topic("tally_replay_remaining_records", log.stack, None) == 6
    assert of_topic("tally_generations", log.stack, None, state="building") == 1
    await generations.drop(0, 2)
    await look(log.stack)
    assert of_topic("tally_generations", log.stack, None, state="building") == 0


async def test_what_cannot_be_read_is_left_out_and_a_scrape_does_not_hang(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Valkey takes the connection and never answers; then it is not there at all."""
    await look(log.stack)
    up = {"topic": f"{log.stack.namespace}.votes"}
    assert REGISTRY.get_sample_value("tally_standing_up", up) == 1
    assert of_topic("tally_log_end", log.stack) is not None

    monkeypatch.setattr(gauges, "PATIENCE_S", 0.3)

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(3600)

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    silent_valkey = f"redis://127.0.0.1:{port}/0"
    async with opened(log.stack, valkey=silent_valkey) as refresh:
        with monkeypatch.context() as patient:
            patient.setattr(client, "TIMEOUT_S", 3600.0)
            async with asyncio.timeout(60):
                await refresh()
    server.close()
    monkeypatch.setattr(gauges, "PATIENCE_S", 30)
    async with opened(log.stack, valkey=silent_valkey) as refresh:
        await refresh()
    assert REGISTRY.get_sample_value("tally_standing_up", up) == 0
    assert of_topic("tally_log_end", log.stack) is None
    assert of_ledger("tally_votes", status="counted") is None


async def test_scrapes_that_come_at_once_or_soon_share_a_look(
    log: FoldedLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gauges, "SOONEST_S", 30)
    looked: list[ProjectionName] = []
    rows = StatusCollector.all_rows

    async def counted(collector: StatusCollector, fold: ProjectionName) -> list[PartitionStatus]:
        looked.append(fold)
        return await rows(collector, fold)

    monkeypatch.setattr(StatusCollector, "all_rows", counted)
    async with opened(log.stack) as refresh:
        await asyncio.gather(refresh(), refresh(), refresh())
        await refresh()
    assert sorted(looked) == sorted(ProjectionName)
