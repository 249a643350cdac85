"""The supervisor: order of start and stop, restarts, and an accurate `stack.json`."""

import asyncio
import json
import socket
import stat
import time
from collections.abc import AsyncIterator, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack.child_process import LONGEST_DELAY_S
from libs.local_stack.errors import Exit, StackError
from libs.local_stack.reaper import start_time
from libs.local_stack.servers import Servers
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report, Silence
from libs.local_stack.supervisor import UNANSWERED, Supervisor
from tests.support.clients.http_clients import http_client
from tests.support.eventually import eventually
from tests.support.servers.frozen_process import stopped
from tests.support.servers.stand_in_services import (
    BROKEN,
    GATEWAY,
    LATE,
    PROJECTOR,
    STUBBORN,
    RecordingPreparation,
)

Supervise = Callable[..., Supervisor]


@pytest.fixture
def supervise(servers: Servers, tmp_path: Path, namespace: str) -> Supervise:
    """Return supervisors over the session's servers, so that they start in an instant."""

    def supervisor(*, data_dir: Path = tmp_path, timeout_s: float = 60, **options: Any) -> Supervisor:
        settings = StackSettings(
            data_dir=data_dir,
            namespace=namespace,
            kafka_bootstrap_servers=servers.addresses.kafka,
            valkey_url=servers.addresses.valkey,
            stack_start_timeout_s=timeout_s,
        )
        given = {"preparation": RecordingPreparation(), "port": 0, "parts": (PROJECTOR, GATEWAY)}
        return Supervisor(settings, **{**given, "report": Silence(), **options})

    return supervisor


@pytest.fixture
async def running(supervise: Supervise, tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with supervise(data_dir=tmp_path / "my data") as started:
        yield started


def stack_file(running: Supervisor) -> dict[str, Any]:
    stack: dict[str, Any] = json.loads((running.data_dir / "stack.json").read_text())
    return stack


async def test_stack_json_says_all_and_only_its_owner_reads_it(running: Supervisor) -> None:
    stack = stack_file(running)
    base = stack["base_url"]
    assert stack["legacy_base_url"] == f"{base}/legacy"
    assert stack["legacy_test_base_url"] == f"{base}/legacy-test"
    assert stack["media_url"] == f"{base}/media"
    assert stack["dashboard_url"] == f"{base}/dashboard"
    assert stack["metrics_urls"].keys() == {"gateway", "projector"}
    assert stack["metrics_urls"]["gateway"] == f"{base}/metrics"
    assert (stack["kafka"], stack["valkey"]) == (running.addresses.kafka, running.addresses.valkey)
    assert stack["pids"].keys() == {"gateway", "projector"}
    assert stack["api_key"] == "the api_key"
    assert stack["test_service_key"] == "the test_service_key"
    assert stat.S_IMODE((running.data_dir / "stack.json").stat().st_mode) == 0o600


async def test_operators_have_a_port_of_their_own_where_the_front_is_not_on_loopback(
    running: Supervisor, supervise: Supervise, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert running.stack["operations_url"] == running.base_url
    monkeypatch.setenv("TALLY_HOST", "0.0.0.0")
    async with supervise(data_dir=tmp_path / "open") as everywhere:
        async with http_client(base_url=everywhere.base_url) as client:
            environment = (await client.get("/readyz")).json()
        operators = f"http://127.0.0.1:{environment['TALLY_OPERATIONS_PORT']}"
        assert operators != everywhere.base_url
        assert everywhere.stack["operations_url"] == operators
        assert everywhere.metrics_urls["gateway"] == f"{operators}/metrics"


async def test_preparation_comes_first_and_credentials_last(
    supervise: Supervise, servers: Servers, tmp_path: Path, namespace: str
) -> None:
    order: list[str] = []

    class Watching(RecordingPreparation):
        async def prepare(self, addresses: DeploymentAddresses) -> None:
            await super().prepare(addresses)
            order.append(f"prepare {sorted(started.pids)}")

        async def development_credentials(self, addresses: DeploymentAddresses) -> dict[str, str]:
            order.append(f"credentials {sorted(started.pids)}")
            return await super().development_credentials(addresses)

    watching = Watching()
    async with (started := supervise(preparation=watching)):
        assert order == ["prepare []", "credentials ['gateway', 'projector']"]
        where = servers.addresses.kafka, servers.addresses.valkey, namespace, 16, (tmp_path / "objects").as_uri()
        assert watching.addresses == [DeploymentAddresses(*where, {"kafka_settings": {}})] * 2


async def test_a_part_that_dies_is_started_again_and_stack_json_says_so(running: Supervisor) -> None:
    before, began = running.pids, time.time() - 0.001
    await running.kill("projector")

    def repaired() -> bool:
        now = stack_file(running)["pids"]
        return now.keys() == before.keys() and now["projector"] != before["projector"]

    await eventually(repaired)
    assert stack_file(running)["pids"] == running.pids
    assert running.pids["gateway"] == before["gateway"]
    [(name, end)] = stack_file(running)["ends"].items()
    assert (name, end["times"], end["reason"]) == ("projector", 1, "by SIGKILL")
    assert began <= end["at"] / 1000 <= time.time()


async def test_stack_json_says_until_when_a_part_waits_to_be_started_again(running: Supervisor) -> None:
    before = time.time()

    async def waits() -> int | None:
        await running.kill("projector")
        until_ms: int | None = stack_file(running)["restarts"].get("projector")
        return until_ms

    until_ms = await eventually(waits)
    assert until_ms is not None
    assert before < until_ms / 1000 < time.time() + LONGEST_DELAY_S
    await eventually(lambda: "projector" in running.pids and not stack_file(running)["restarts"])


async def test_stopping_drains_every_part_and_leaves_nothing(running: Supervisor) -> None:
    pids = running.pids
    await running.stop()
    assert [start_time(pid) for pid in pids.values()] == [None, None]
    assert not (running.data_dir / "stack.json").exists()
    for part in ("gateway", "projector"):
        assert (running.data_dir / "logs" / f"{part}.log").read_text().endswith("drained\n")


async def test_a_part_that_does_not_drain_in_time_is_killed(supervise: Supervise) -> None:
    async with supervise(parts=(STUBBORN, GATEWAY)) as started:
        pid = started.pids["projector"]
    assert start_time(pid) is None


async def test_a_part_that_cannot_start_ends_it_all_with_its_log(supervise: Supervise, tmp_path: Path) -> None:
    broken = supervise(parts=(BROKEN,))
    with pytest.raises(StackError, match=r"logs/projector\.log") as refused:
        await broken.start()
    assert refused.value.exit_code == Exit.SERVER_AWAY
    assert broken.pids == {}
    assert "cannot go on" in (tmp_path / "logs" / "projector.log").read_text()


async def test_a_service_that_is_not_ready_stays_for_operators_to_see_and_mend(
    supervise: Supervise, tmp_path: Path
) -> None:
    refused = supervise(parts=(LATE,), timeout_s=0.2)
    with pytest.raises(StackError, match=r"not 200 in 0\.2 s"):
        await refused.start()
    assert refused.pids == {}
    said = StringIO()
    report = Report(Console(file=said, width=500))
    waiting = supervise(parts=(LATE,), report=report, waits=True, timeout_s=0.2)
    start = asyncio.create_task(waiting.start())
    await eventually((tmp_path / "stack.json").exists)
    assert f"`tally doctor --data-dir {tmp_path}` says why" in said.getvalue()
    assert stack_file(waiting)["kafka"] == waiting.addresses.kafka
    assert "api_key" not in stack_file(waiting)
    (tmp_path / "ready").touch()
    assert (await start)["api_key"] == stack_file(waiting)["api_key"]
    await waiting.stop()


async def test_a_port_in_use_is_named_with_the_way_out(supervise: Supervise) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StackError, match=rf"Port {port} .*--port.*--any-port") as refused:
            await supervise(port=port).start()
        assert refused.value.exit_code == Exit.BAD_USAGE
        async with supervise(port=port, any_port=True) as started:
            assert started.base_url != f"http://127.0.0.1:{port}"


async def test_a_part_that_hangs_is_started_again_and_one_that_answers_is_not(
    supervise: Supervise, tmp_path: Path
) -> None:
    async with supervise(probe_s=1) as running:
        before, log = running.pids, tmp_path / "logs" / "gateway.log"
        await eventually(lambda: log.read_text().count("GET /livez") > 2 * UNANSWERED)
        assert running.pids == before
        with stopped(before["gateway"]):
            await eventually(lambda: running.pids.get("gateway") not in (None, before["gateway"]))
        async with http_client(base_url=running.base_url) as client:
            await eventually(lambda: answers(client))
        assert running.pids["projector"] == before["projector"], "it has no port"


async def answers(client: httpx.AsyncClient) -> bool:
    try:
        return (await client.get("/livez")).is_success
    except httpx.HTTPError:
        return False
