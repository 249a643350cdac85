"""Chooses each server: external by the settings, otherwise native, otherwise in a container."""

import uuid
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from libs.kafka.settings import KafkaSettings
from libs.local_stack import errors, java, kafka, ports, valkey
from libs.local_stack.child_process import Reaper
from libs.local_stack.kafka_cluster import native_brokers
from libs.local_stack.server_interface import External, Server, ServerGroup, alone
from libs.local_stack.settings import StackSettings
from libs.local_stack.startup_report import Report
from libs.local_stack.topology import Topology
from libs.local_stack.valkey_cluster import native_valkey
from libs.storage.private_files import remembered_secret
from libs.telemetry.redaction import revealed

OF_THE_EXTRA: Final = ("jgo", "testcontainers")
"""Modules that the extra `local` installs on every platform; servers' images omit it."""


def choose(
    settings: StackSettings, topology: Topology, data_dir: Path, reaper: Reaper, report: Report
) -> dict[str, ServerGroup]:
    """Return `kafka` and `valkey`, not started yet. Raises `StackError` if one cannot be run."""
    chosen: dict[str, Server] = {}
    if settings.kafka_bootstrap_servers:
        setting = "TALLY_KAFKA_BOOTSTRAP_SERVERS"
        chosen["kafka"] = External("kafka", settings.kafka_bootstrap_servers, setting, kafka.answers)
    if settings.valkey_url:
        chosen["valkey"] = External("valkey", revealed(settings.valkey_url), "TALLY_VALKEY_URL", valkey.answers)
    groups = {name: alone(server) for name, server in chosen.items()}
    if len(chosen) == 2:
        return groups
    if "kafka" not in chosen and KafkaSettings().kafka_security_protocol != "PLAINTEXT":
        raise errors.secured_kafka_without_address()
    if not all(map(find_spec, OF_THE_EXTRA)):
        raise errors.local_extra_missing()
    if settings.stack == "containers" or (settings.stack == "auto" and not _can_run_natively(chosen)):
        return {name: alone(server) for name, server in _in_containers(settings, data_dir).items()} | groups
    if "kafka" not in chosen:
        groups["kafka"] = native_brokers(topology, settings, data_dir, reaper, report)
    if "valkey" not in chosen:
        groups["valkey"] = native_valkey(topology, settings, data_dir, reaper)
    return groups


def _can_run_natively(external: dict[str, Server]) -> bool:
    """Return False only if containers are available instead; otherwise the native error is more helpful."""
    from libs.local_stack.containers import docker_answers  # noqa: PLC0415 (Docker's client takes 0.2 s)

    try:
        if "kafka" not in external:
            java.find()
        if "valkey" not in external:
            valkey.find()
    except errors.StackError:
        return not docker_answers()
    return True


def _in_containers(settings: StackSettings, data_dir: Path) -> dict[str, Server]:
    from libs.local_stack import containers  # noqa: PLC0415 (Docker's client takes 0.2 s)

    if not containers.docker_answers():
        raise errors.no_docker()
    port = ports.remembered(data_dir / "ports.json", ("kafka", "valkey"))
    identity = data_dir / "containers.id"
    if not identity.exists():
        identity.write_text(f"tally-{uuid.uuid4().hex[:12]}")
    volume, timeout_s = identity.read_text(), settings.stack_start_timeout_s
    return {
        "kafka": containers.container_kafka(
            settings.kafka_image,
            port["kafka"],
            volume,
            timeout_s,
            remembered_secret(data_dir / "kafka" / kafka.SECRET_FILE),
        ),
        "valkey": containers.container_valkey(
            settings.valkey_image,
            port["valkey"],
            volume,
            timeout_s,
            settings.valkey_fsync,
            remembered_secret(data_dir / "valkey" / valkey.SECRET_FILE),
        ),
    }
