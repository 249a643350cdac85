"""Finds the deployment for a command: by the settings, otherwise by the data directory's stack.json."""

from pathlib import Path
from typing import Any, Final

from libs.deployment.settings import DeploymentAddresses
from libs.local_stack import stack_json
from libs.local_stack.settings import StackSettings
from libs.storage.private_files import default_data_dir
from libs.telemetry.redaction import revealed

DATA_DIR: Final = default_data_dir()


class NoDeployment(Exception):
    """Neither the settings nor a running stack contain the servers' addresses; the message has the remedy."""


def find_addresses(data_dir: Path) -> DeploymentAddresses:
    """Return the deployment's addresses. Raises `NoDeployment`."""
    given = StackSettings()
    found = stack_json.read(data_dir) or {}
    kafka = given.kafka_bootstrap_servers or found.get("kafka")
    valkey = found.get("valkey") if given.valkey_url is None else revealed(given.valkey_url)
    if kafka is None or valkey is None:
        raise NoDeployment(
            f"No stack runs on {data_dir}. Start one with `tally up`, name its directory with --data-dir, "
            "or set TALLY_KAFKA_BOOTSTRAP_SERVERS and TALLY_VALKEY_URL."
        )
    objects = found.get("storage_url") or f"file://{(data_dir / 'objects').resolve()}"
    return DeploymentAddresses(
        kafka=kafka,
        valkey=valkey,
        namespace=found.get("namespace", given.namespace),
        partitions=found.get("partitions", given.partitions),
        storage_url=objects if given.storage_url is None else revealed(given.storage_url),
        description=found,
    )


def addresses_in(stack: dict[str, Any]) -> DeploymentAddresses:
    """Return the addresses of a running stack, whatever the settings are."""
    names = "kafka", "valkey", "namespace", "partitions", "storage_url"
    return DeploymentAddresses(**{name: stack[name] for name in names}, description=stack)
