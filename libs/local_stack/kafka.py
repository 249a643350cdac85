"""Native Kafka of one broker or several, each a controller too, run from a Java runtime and jars of registries."""

import asyncio
import base64
import logging
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, Final

from aiokafka.conn import create_conn
from aiokafka.errors import (
    AuthenticationFailedError,
    IllegalSaslStateError,
    KafkaError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)

from libs.concurrency.tasks import becomes_true
from libs.kafka.cancellation import call
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import ELECTION_MS, open_admin
from libs.local_stack import errors, java, ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.ports import LOOPBACK
from libs.local_stack.server_interface import AwayServer, NativeServer, ServerGroup, alone
from libs.local_stack.settings import StackSettings, Topology
from libs.local_stack.startup_report import Report, Silence
from libs.storage.private_files import remembered_secret, write_private
from libs.tally.errors import LogUnavailable

SESSION_MS = 3000
MOST_REPLICAS = 3
USER = "tally"
SECRET_FILE = "password"  # noqa: S105 (a file's name)
REFUSED = (
    AuthenticationFailedError,
    IllegalSaslStateError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
)
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
LOGGING = Path(__file__).with_name("log4j2.xml")
LANGUAGE = ("-Duser.language=en", "-Duser.country=US")
"""Kafka converts names to upper case in the language of its process: in Turkish "classic" gets another I. Options
of the command line win over the locale and `JAVA_TOOL_OPTIONS`."""
# Measured on two cores, acks=all, 300-byte records: without the optimising compiler the broker answers after 1.9 s
# instead of 2.8 and takes as many records, 75,000 to 100,000/s either way.
JVM_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Djava.awt.headless=true",
    "-XX:+ExitOnOutOfMemoryError",
    *LANGUAGE,
)


async def answers(bootstrap_servers: str, timeout_s: float = 5.0, brokers: int = 1) -> bool:
    """Return whether a cluster responds with at least this number of brokers.

    Returns within `timeout_s` even if aiokafka swallows the cancellation and keeps waiting.
    """
    settings = KafkaSettings(
        kafka_bootstrap_servers=bootstrap_servers, kafka_request_timeout_ms=int(timeout_s * 1000)
    )
    if not await asyncio.to_thread(_any_listens, settings.kafka_bootstrap_servers):
        return False
    with _silenced("aiokafka", "aiokafka.conn"), suppress(KafkaError, LogUnavailable, TimeoutError):
        return await call(_number_of_brokers(settings), timeout_s) >= brokers
    return False


async def _number_of_brokers(settings: KafkaSettings) -> int:
    async with open_admin(settings) as admin:
        return len((await admin.describe_cluster())["brokers"])


async def away_servers(bootstrap_servers: str, timeout_s: float = 2.0) -> list[AwayServer]:
    """Return the brokers at these addresses to which no connection is possible."""
    arguments = connection(KafkaSettings(kafka_bootstrap_servers=bootstrap_servers))
    endpoints = _endpoints(arguments.pop("bootstrap_servers"))
    with _silenced("aiokafka", "aiokafka.conn"):
        found = await asyncio.gather(*(_away(*endpoint, arguments, timeout_s) for endpoint in endpoints))
    return [server for server in found if server is not None]


async def _away(host: str, port: int, arguments: Mapping[str, Any], timeout_s: float) -> AwayServer | None:
    try:
        (await asyncio.wait_for(create_conn(host, port, **arguments), timeout_s)).close()
    except REFUSED as error:
        return AwayServer(f"{host}:{port}", str(error))
    except (KafkaError, OSError, TimeoutError):
        return AwayServer(f"{host}:{port}")
    return None


@contextmanager
def _silenced(*names: str) -> Iterator[None]:
    """Drop these loggers' records: a broker that does not respond yet is no error here."""

    def drop(_: logging.LogRecord) -> bool:
        return False

    for name in names:
        logging.getLogger(name).addFilter(drop)
    try:
        yield
    finally:
        for name in names:
            logging.getLogger(name).removeFilter(drop)


def _any_listens(bootstrap_servers: str) -> bool:
    return any(ports.accepts(port, host) for host, port in _endpoints(bootstrap_servers))


def _endpoints(bootstrap_servers: str) -> Iterator[tuple[str, int]]:
    pairs = (address.strip().rpartition(":") for address in bootstrap_servers.split(","))
    return ((host, int(port)) for host, _, port in pairs if port.isdecimal())


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A broker's place in its cluster; `controllers`: the controllers' ports by node id."""

    node: int
    cluster_id: str
    controllers: Mapping[int, int]


def login(password: str) -> str:
    """Return the JAAS configuration of a listener that accepts one user, who is also the broker's own."""
    return f'{PLAIN} required username="{USER}" password="{password}" user_{USER}="{password}";'


def address_with(password: str, endpoints: str) -> str:
    """Return the address by which clients log in to a local Kafka at `endpoints` (host:port, comma-separated)."""
    return f"{USER}:{password}@{endpoints}"


class NativeKafka(NativeServer):
    """Kafka 4.3.0, broker and controller in one process; the storage gets its ids once per data directory.

    Both listeners require a password, random and in private files: another local user who could write to the log
    could issue API keys, and one who could read it could read hidden counts.
    """

    def __init__(
        self,
        port: int,
        controller_port: int,
        data_dir: Path,
        log: Path,
        reaper: Reaper,
        *,
        report: Report,
        heap_mb: int = 512,
        timeout_s: float = 60.0,
        membership: ClusterMember | None = None,
        password: str | None = None,
    ) -> None:
        """`membership`: of a cluster of several, with its `password`; by default it is alone, with one of its own,
        kept in `data_dir`."""
        self._membership = membership or ClusterMember(1, new_id(), {1: controller_port})
        self.endpoint = f"{LOOPBACK}:{port}"
        self._password = password or remembered_secret(data_dir / SECRET_FILE)
        super().__init__(
            "kafka" if membership is None else f"kafka-{membership.node}",
            address_with(self._password, self.endpoint),
            log,
            reaper,
            answers,
            timeout_s=timeout_s,
            grace_s=20.0,
        )
        self._port = port
        self._controller_port = controller_port
        self._data_dir = data_dir
        self._report = report
        self._heap_mb = heap_mb

    async def start(self) -> None:
        """Start the broker and wait for metadata responses. The first start on a machine downloads the jars."""
        cancelled = Event()
        try:
            command = await asyncio.to_thread(self._prepare, cancelled)
        finally:
            cancelled.set()
        if not ports.is_free(self._controller_port):
            raise errors.port_in_use(self._controller_port)
        await self._run(command, self._port)

    def _prepare(self, cancelled: Event) -> list[str]:
        """Prepare all that a start needs; returns the broker's command line."""
        from libs.local_stack import jars, kafka_aot_cache  # noqa: PLC0415 (need the extra `local`)

        program, class_path = java.find(), jars.class_path(self._report, cancelled)
        cache = kafka_aot_cache.options(
            program,
            class_path,
            jars.home(),
            lambda directory: _on_trial(directory, self._reaper)._command(program, class_path),
            self._reaper,
            self._report,
            cancelled,
        )
        return self._command(program, class_path, cache)

    def _command(self, program: Path, class_path: Sequence[Path], cache: Sequence[str] = ()) -> list[str]:
        """Write the configuration and format the storage; returns the command line."""
        try:
            self._data_dir.mkdir(parents=True, exist_ok=True)
            properties = self._data_dir / "server.properties"
            write_private(properties, _lines(self._properties()))
            log = self._data_dir / "log"
            if not (log / "meta.properties").exists():
                self._format(log)
        except OSError as error:
            raise errors.from_os_error(error, self._data_dir) from error
        own = [f"-Xmx{self._heap_mb}m", *JVM_OPTIONS, *cache, f"-Dlog4j2.configurationFile={LOGGING}"]
        jars = os.pathsep.join(map(str, class_path))
        return [str(program), *own, "-cp", jars, "kafka.Kafka", str(properties)]

    def _format(self, log: Path) -> None:
        """Give the storage its ids, as Kafka's storage tool does, which would start a Java process for it."""
        log.mkdir(exist_ok=True)
        member = self._membership
        ids = {"version": 1, "cluster.id": member.cluster_id, "node.id": member.node, "directory.id": new_id()}
        write_private(log / "meta.properties", _lines(ids))

    def _properties(self) -> dict[str, object]:
        listeners = f"CLIENT://{self.endpoint},CONTROLLER://{LOOPBACK}:{self._controller_port}"
        log = self._data_dir / "log"
        return broker_properties(self._membership, listeners, self.endpoint, log, self._password)


def broker_properties(
    member: ClusterMember, listeners: str, endpoint: str, log: Path, password: str
) -> dict[str, object]:
    """Return the `server.properties` of a broker that clients reach at `endpoint`, by the password alone."""
    controllers = member.controllers
    replicas = min(len(controllers), MOST_REPLICAS)
    in_sync = max(1, replicas - 1)
    return {
        "process.roles": "broker,controller",
        "node.id": member.node,
        "controller.quorum.voters": ",".join(f"{node}@{LOOPBACK}:{port}" for node, port in controllers.items()),
        "listeners": listeners,
        "advertised.listeners": f"CLIENT://{endpoint}",
        "inter.broker.listener.name": "CLIENT",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CLIENT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login(password),
        "listener.name.controller.plain.sasl.jaas.config": login(password),
        "log.dirs": log,
        # After a kill -9 the broker is refused until its old session is over: 9 s by default.
        "broker.session.timeout.ms": SESSION_MS,
        "broker.heartbeat.interval.ms": 500,
        # By default the controller writes two empty records a second: a third of an idle broker's CPU time.
        "metadata.max.idle.interval.ms": 5000,
        "num.partitions": 1,
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "auto.create.topics.enable": "false",
        "unclean.leader.election.enable": "false",
        "log.message.timestamp.type": "LogAppendTime",
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": 4,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


def _on_trial(directory: Path, reaper: Reaper) -> NativeKafka:
    """Return a broker of its own, from whose run Java's cache is made."""
    port, controller_port = ports.free_ports(2)
    return NativeKafka(port, controller_port, directory, directory / "log", reaper, report=Silence())


def _lines(properties: Mapping[str, object]) -> str:
    """Return the text of a Java properties file."""
    return "".join("{}={}\n".format(name, str(value).replace("\\", "\\\\")) for name, value in properties.items())


def new_id() -> str:
    """Return a random id in Kafka's form."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


DEADLINE_MS: Final = 2 * SESSION_MS + ELECTION_MS
"""Longer than for brokers with controllers of their own: a lost broker may have been the active controller, and
the next one begins all sessions again."""


def native_brokers(
    topology: Topology, settings: StackSettings, data_dir: Path, reaper: Reaper, report: Report
) -> ServerGroup:
    """Return the brokers, each of them controller too, not started yet."""
    directory = data_dir / "kafka"
    options: dict[str, Any] = {
        "report": report,
        "heap_mb": settings.kafka_heap_mb,
        "timeout_s": settings.stack_start_timeout_s,
    }
    if topology.brokers == 1:
        own = ports.remembered(data_dir / "ports.json", ("kafka", "kafka_controller"))
        log = data_dir / "logs" / "kafka.log"
        return alone(NativeKafka(own["kafka"], own["kafka_controller"], directory, log, reaper, **options))
    names = {number + 1: f"kafka-{number + 1}" for number in range(topology.brokers)}
    port = ports.remembered(
        data_dir / "ports.json", [*names.values(), *(f"{name}-controller" for name in names.values())]
    )
    controllers = {node: port[f"{name}-controller"] for node, name in names.items()}
    cluster_id = _remembered_id(directory / "cluster.id")
    password = remembered_secret(directory / SECRET_FILE)
    members = [
        NativeKafka(
            port[name],
            controllers[node],
            directory / name,
            data_dir / "logs" / f"{name}.log",
            reaper,
            membership=ClusterMember(node, cluster_id, controllers),
            password=password,
            **options,
        )
        for node, name in names.items()
    ]
    address = address_with(password, ",".join(member.endpoint for member in members))

    async def all_registered() -> None:
        if not await becomes_true(lambda: answers(address, brokers=len(members)), settings.stack_start_timeout_s):
            raise errors.start_failed("kafka", data_dir / "logs", "its brokers do not find one another")

    return ServerGroup(members, address, all_registered)


def client_settings(topology: Topology) -> dict[str, int]:
    """Return the Kafka settings of services and commands that depend on the number of brokers."""
    if topology.brokers == 1:
        return {}
    given = KafkaSettings()
    deadline_ms = given.produce_deadline_ms if "produce_deadline_ms" in given.model_fields_set else DEADLINE_MS
    return {"kafka_replication_factor": topology.replication_factor, "produce_deadline_ms": deadline_ms}


def _remembered_id(file: Path) -> str:
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        write_private(file, new_id())
    return file.read_text()
