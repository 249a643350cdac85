"""`tally doctor`: before anything runs, and with faults."""

import asyncio
import json
import os
import shutil
import socket
from collections.abc import AsyncIterator, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from libs.deployment.deployment import Deployment
from libs.deployment.settings import DeploymentAddresses
from libs.kafka import topics
from libs.kafka.errors import WrongTopic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import Brokers
from libs.local_stack import stack_json
from libs.local_stack.java import pins
from libs.local_stack.settings import StackSettings
from libs.monitoring import collector
from libs.monitoring.collector import StatusCollector
from libs.monitoring.status import Answer
from libs.tally.errors import ViewsUnavailable
from libs.views.generations.generations import ProjectionName
from libs.views.valkey.client import ValkeyClient
from libs.views.valkey.function_libraries import libraries
from libs.views.valkey.function_loading import open_valkey
from services.cli import present_servers
from services.cli.__main__ import app
from services.cli.commands.doctor import command as machine
from services.cli.commands.doctor import servers
from services.cli.commands.doctor.servers import Finding, check_servers, check_valkey_settings
from services.cli.commands.status import read_present_status
from tests.support.builders.folded_log import FoldedLog, folded_log
from tests.support.eventually import eventually
from tests.support.servers.own_valkey import own_valkey
from tests.support.servers.valkey_cluster import valkey_cluster

MOST_S: Final = 5.0
"""Seconds in which operators get an answer."""
BUSY_S: Final = 60.0
"""The same on a busy machine, where only the shares of the time are compared with it."""
LEAST_START_S: Final = 1.0
"""Seconds of them that the start and the end of a command have at least."""


@pytest.fixture
async def log(kafka: str, tmp_path: Path, namespace: str) -> AsyncIterator[FoldedLog]:
    """Open a log whose views are in a Valkey of the test's own, as it replaces functions there."""
    async with own_valkey(tmp_path) as server, folded_log(kafka, server.address, namespace) as log:
        yield log


@pytest.fixture(autouse=True)
def no_servers_in_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TALLY_KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.delenv("TALLY_VALKEY_URL", raising=False)


async def findings(stack: DeploymentAddresses) -> list[Finding]:
    async with Deployment(stack) as deployment:
        return [finding async for finding in check_servers(deployment)]


async def by_name(log: FoldedLog) -> dict[str, Finding]:
    return {finding.name: finding for finding in await findings(log.stack)}


def doctor(data_dir: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["doctor", "--data-dir", str(data_dir), *options])


def test_when_nothing_runs_it_checks_the_machine_and_says_how_to_start(tmp_path: Path) -> None:
    result = doctor(tmp_path / "none", "--port", "0")
    assert result.exit_code == 0, result.output
    assert "ok       Java: Java 25" in result.stdout
    assert "tally up" in result.stdout
    assert result.stdout.endswith("with this machine. No service was checked, because none runs here.\n")
    assert not (tmp_path / "none").exists()


def test_a_taken_port_is_a_problem_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = doctor(tmp_path, "--port", str(taken.getsockname()[1]), "--json")
    assert result.exit_code == 1
    answer = json.loads(result.stdout)
    assert not answer["ok"]
    (wrong,) = [check for check in answer["checks"] if not check["ok"]]
    assert "--any-port" in wrong["remedy"]


def test_a_stack_that_was_announced_but_is_away_ends_with_3(tmp_path: Path) -> None:
    stack = {"base_url": "http://127.0.0.1:9", "kafka": "127.0.0.1:9", "valkey": "redis://127.0.0.1:9/0"}
    stack_json.write(tmp_path, stack | {"pids": {"projector": 2**22}})
    result = doctor(tmp_path)
    assert result.exit_code == 3
    for away in ("projector: process", "Kafka: does not answer", "Valkey: does not answer"):
        assert f"problem  {away}" in result.stdout
    assert "follows  HTTP service" in result.stdout
    assert "3 problems found, and what probably follows from them: 1." in result.stdout


def test_a_wrong_password_is_named_and_no_absence(
    kafka: str, valkey_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, broker = kafka.rpartition("@")
    scheme, server = valkey_address.partition("://")[0], valkey_address.rpartition("@")[2]
    for name in ("TALLY_VALKEY_USERNAME", "TALLY_VALKEY_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TALLY_KAFKA_BOOTSTRAP_SERVERS", f"tally:guessed@{broker}")
    for url, settings in (
        (f"{scheme}://default:guessed@{server}", "TALLY_VALKEY_URL"),
        (f"{scheme}://{server}", "TALLY_VALKEY_USERNAME and TALLY_VALKEY_PASSWORD"),
    ):
        monkeypatch.setenv("TALLY_VALKEY_URL", url)
        result = doctor(tmp_path, "--port", "0", "--json")
        assert result.exit_code == 1, result.output
        checks = {check["name"]: check for check in json.loads(result.stdout)["checks"]}
        assert checks["Valkey"]["remedy"] == f"correct the user and password in {settings}"
        assert checks["Kafka"]["remedy"] == "correct the user and password in TALLY_KAFKA_BOOTSTRAP_SERVERS"
        for server_name in ("Kafka", "Valkey"):
            assert "refuses the user or password" in checks[server_name]["detail"]
        assert "guessed" not in result.output


def test_a_jar_that_is_not_the_pinned_one_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    group, artifact, version = pins()[0].coordinate.split(":")
    jar = tmp_path.joinpath("tallykeeper", "kafka-4.3.0", "repository", *group.split("."), artifact, version)
    jar.mkdir(parents=True)
    (jar / f"{artifact}-{version}.jar").write_bytes(b"another")
    monkeypatch.setattr(machine, "user_cache_path", lambda name: tmp_path / name)
    assert not jars_of(tmp_path).ok
    shutil.rmtree(jar)
    assert "downloaded at the next start" in jars_of(tmp_path).detail


def jars_of(data_dir: Path) -> Finding:
    found = machine.check_machine(StackSettings(), data_dir, None)
    return next(each for each in found if each.name == "Kafka's jars")


async def test_it_sees_shut_gates_and_missing_functions(log: FoldedLog) -> None:
    found = await by_name(log)
    assert all(found[name].ok for name in ("Kafka", "Valkey", "topics", "functions", "clock"))
    assert not found["gate"].ok
    library = libraries()[-1].loaded_name
    await log.valkey.call("FUNCTION", "DELETE", library)
    found = await by_name(log)
    assert library in found["functions"].detail


async def test_another_number_of_partitions_than_the_topics_have_is_no_fault_of_the_views(log: FoldedLog) -> None:
    log.stack = replace(log.stack, partitions=2 * log.stack.partitions)
    with pytest.raises(WrongTopic, match=f"partitions is 2, but must be {log.stack.partitions}"):
        await read_present_status(log.stack)
    found = await by_name(log)
    assert "partitions is 2, but must be 4" in found["topics"].detail
    assert not {"views", "gate", "stalled"} & found.keys()


async def test_a_wrong_clock_is_named_once(log: FoldedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger = collector.ledger_of

    async def a_minute(_: object) -> float:
        return 60.0

    monkeypatch.setattr(servers, "_skew_s", a_minute)
    monkeypatch.setattr(collector, "ledger_of", lambda *of: ledger(*of) | {"valkey_clock_off_s": 60.0})
    [clock] = [finding for finding in await findings(log.stack) if finding.name == "clock"]
    assert (clock.ok, clock.detail) == (False, "Valkey's is off by +60.000 s")


@pytest.mark.servers
async def test_it_and_status_answer_from_the_servers_that_are_there_and_name_the_others(
    kafka: str, namespace: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        broker = f"127.0.0.1:{silent.getsockname()[1]}"
        async with valkey_cluster() as cluster, folded_log(kafka, cluster.url, namespace) as log:
            hung_process = {
                "pids": {"gateway": os.getpid()},
                "metrics_urls": {"gateway": f"http://{broker}/metrics"},
            }
            stack = replace(log.stack, kafka=f"{kafka},{broker}", description=hung_process)
            first, hung, last = cluster.nodes
            others = f"redis://127.0.0.1:{first.port},127.0.0.1:{last.port}"
            hung.stop()
            try:
                status = await asyncio.wait_for(read_present_status(stack), BUSY_S)
                unnamed = await asyncio.wait_for(read_present_status(replace(stack, valkey=others)), BUSY_S)
                found = await asyncio.wait_for(findings(stack), BUSY_S)
            finally:
                hung.resume()
    servers_away = [f"Kafka {broker}", f"Valkey 127.0.0.1:{hung.port}"]
    assert [one.where for one in status.away][:2] == servers_away
    assert any(one.where.startswith("catalogue ") for one in status.away)
    assert status.of(ProjectionName.CATALOGUE), "of the other shards"
    assert f"away: Valkey 127.0.0.1:{hung.port} does not answer in time" in {one.reason for one in unnamed.away}
    assert [part.answer for part in status.parts] == [Answer.SILENT]
    problems = {one.name: one for one in found if not one.ok}
    assert "does not answer" in problems["gateway"].detail
    assert broker in problems["Kafka"].detail
    assert f":{hung.port}" in problems["Valkey"].detail
    assert {"Valkey's shards", "views"} <= {name for name, one in problems.items() if one.away}
    assert "functions" in {one.name for one in found if one.ok}, "of the other shards"


@pytest.mark.servers
async def test_they_end_in_time_and_name_kafka_if_it_hangs_for_all_partitions(
    kafka: str, valkey_address: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each wait is a share of one time: the deadline, and not the sum of all waits, limits an answer."""
    assert present_servers.WITHIN_S + present_servers.CLOSE_S + LEAST_START_S <= MOST_S
    limits: list[float] = []

    async def hangs(reading: Coroutine[Any, Any, Any], within_s: float) -> Any:
        reading.close()
        limits.append(within_s)
        await asyncio.sleep(within_s)
        raise TimeoutError

    async with folded_log(kafka, valkey_address, namespace) as log:
        monkeypatch.setattr(collector, "call", hangs)
        async with Deployment(log.stack) as deployment:
            with pytest.raises(ViewsUnavailable):
                await StatusCollector(deployment).collect(within_s=0.2)
        assert max(limits) <= 0.1
        monkeypatch.undo()
        monkeypatch.setattr(LogReader, "end_offsets", never)

        async def names_kafka() -> bool:
            found = (await read_present_status(log.stack)).away
            return ("all partitions", "away: Kafka does not answer in time") in {
                (away.where, away.reason) for away in found
            }

        await eventually(names_kafka)


async def never(*_: object) -> dict[int, int]:
    await asyncio.Event().wait()
    return {}


@pytest.fixture
async def shards() -> AsyncIterator[ValkeyClient]:
    async with valkey_cluster() as cluster:
        client = open_valkey(cluster.url)
        for node in cluster.nodes:
            await node.command("CONFIG", "SET", "appendonly", "yes")
        yield client
        await client.close()


@pytest.mark.servers
async def test_settings_of_a_cluster_that_break_promises_are_named(shards: ValkeyClient) -> None:
    [found] = await check_valkey_settings(await shards.shards())
    assert (found.ok, found.detail) == (True, "as required on 3 shards")
    [_, other, _] = await shards.shards()
    for setting, wrong in (
        ("maxmemory-policy", "allkeys-lru"),
        ("cluster-require-full-coverage", "yes"),
        ("min-replicas-to-write", "1"),
        ("appendonly", "no"),
    ):
        [_, before] = await other.valkey.call("CONFIG", "GET", setting)
        await other.valkey.call("CONFIG", "SET", setting, wrong)
        [found] = await check_valkey_settings(await shards.shards())
        assert not found.ok
        assert setting in found.detail + found.remedy or "replicas" in found.detail
        await other.valkey.call("CONFIG", "SET", setting, before)
    single = await check_valkey_settings(await other.valkey.shards())
    assert any("names one server" in each.detail for each in single)
    [(first, _)] = other.slots
    for each in await shards.shards():
        await each.valkey.call("CLUSTER", "DELSLOTSRANGE", first, first + 9)

    async def names_uncovered_slots() -> bool:
        found = await check_valkey_settings(await shards.shards())
        return any("10 slots belong to no shard" in each.detail for each in found)

    await eventually(names_uncovered_slots)


async def test_a_deadline_that_ends_before_a_lost_broker_is_replaced_is_a_problem(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    session_ms: int | None = 9_000

    async def three(_: KafkaSettings) -> Brokers:
        return Brokers(3, session_ms)

    monkeypatch.setattr(servers, "read_brokers", three)
    short = await servers.check_produce_deadline(KafkaSettings(produce_deadline_ms=11_999))
    assert not short.ok
    assert "TALLY_PRODUCE_DEADLINE_MS=12000" in short.remedy
    assert (await servers.check_produce_deadline(KafkaSettings(produce_deadline_ms=12_000))).ok
    session_ms = None
    assert "DescribeConfigs" in (await servers.check_produce_deadline(KafkaSettings())).remedy


async def test_a_broker_that_lags_behind_or_left_is_named(log: FoldedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    async def one_behind(*_: object) -> dict[str, list[dict[str, Any]]]:
        parts = [{"partition": number, "replicas": [1, 2, 3], "isr": [3, 1]} for number in range(2)]
        return {"votes": parts, "purchases": [{"partition": 0, "replicas": [2, 3, 1], "isr": [2, 3, 1]}]}

    async with Deployment(log.stack) as deployment:
        assert (await servers.check_replicas(deployment)).ok
        monkeypatch.setattr(topics, "describe_topics", one_behind)
        found = await servers.check_replicas(deployment)
    assert (found.ok, found.detail) == (False, "out of sync: broker 2 in 2 partitions")
