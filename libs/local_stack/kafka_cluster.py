"""Native Kafka of one broker or several, and the settings that its clients need."""

from pathlib import Path
from typing import Any, Final

from libs.concurrency.tasks import becomes_true
from libs.kafka.brokers import ELECTION_MS
from libs.kafka.settings import KafkaSettings
from libs.local_stack import errors, ports
from libs.local_stack.child_process import Reaper
from libs.local_stack.kafka import (
    SECRET_FILE,
    SESSION_MS,
    Membership,
    NativeKafka,
    address_with,
    answers,
    new_id,
)
from libs.local_stack.server_interface import ServerGroup, alone
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.topology import Topology
from libs.storage.private_files import remembered_secret

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
            membership=Membership(node, cluster_id, controllers),
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
        file.write_text(new_id())
    return file.read_text()
