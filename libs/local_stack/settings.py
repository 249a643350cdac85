"""Settings of the local stack, and the numbers of its servers, fixed for the life of a data directory."""

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from libs.local_stack import errors
from libs.storage.private_files import default_data_dir, write_private
from libs.telemetry.environment_settings import EnvironmentSettings
from libs.telemetry.redaction import SecretUrl
from libs.views.valkey.settings import ValkeyUrl


class StackSettings(EnvironmentSettings):
    """Settings read from the environment (prefix `TALLY_`) when a stack starts."""

    kafka_bootstrap_servers: str | None = Field(
        None, description="A running Kafka to use instead of starting one."
    )
    valkey_url: ValkeyUrl | None = Field(None, description="A running Valkey to use instead of starting one.")
    stack: Literal["auto", "native", "containers"] = Field(
        "auto", description="Start servers natively, in containers, or natively where that is possible."
    )
    kafka_image: str = Field(
        "apache/kafka:4.3.0@sha256:0be4c9eb3565733612d2836d65636fd611a219ebcf5b4162e5ac259ea0ecb907",
        description="Image of Kafka in a container.",
    )
    valkey_image: str = Field(
        "valkey/valkey:9.1.2@sha256:418652cfb58ef879d4978c33553735d7147016032d5aefaa14c828e611eb9dfd",
        description="Image of Valkey in a container.",
    )
    namespace: str = Field("tally", description="Prefix of every topic and key.")
    partitions: int = Field(
        16,
        ge=1,
        description="Partitions of the votes' first topic, fixed for its life; `tally topics grow` adds topics.",
    )
    host: str = Field("127.0.0.1", description="Address on which the local stack's HTTP service listens.")
    lan: bool = Field(
        False,
        description="Serve phones on this machine's network: the gateway listens on all addresses, operators' "
        "routes and metrics on loopback only, and the limits are those of a venue.",
    )
    limits: Literal["standard", "venue"] | None = Field(
        None, description="Limits per address; absent: `venue` on a LAN, else `standard`."
    )
    public_url: str = Field(
        "",
        pattern=r"^(https?://[^/?#]+)?$",
        description="Origin at which browsers reach the stack; absent: this machine's address.",
    )
    operations_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="Port for operators; 0: the front's if on loopback, else a free one.",
    )
    storage_url: SecretUrl | None = Field(
        None, description="The object store; absent: a directory in the data directory."
    )
    data_dir: Path = Field(
        default_factory=default_data_dir,
        description="Where the local stack keeps its data; absent: the user's directory for data of applications, "
        "on Linux ~/.local/share/tallykeeper.",
    )
    brokers: int | None = Field(
        None, ge=1, description="Local brokers; absent: as many as the data directory was made for, at first 1."
    )
    valkey_shards: int | None = Field(
        None,
        ge=1,
        description="Local primaries of Valkey, several as a cluster; absent: as the data directory, 1.",
    )
    valkey_replicas: int | None = Field(
        None, ge=0, description="Local replicas of each shard; absent: as the data directory, 0."
    )
    gateways: int = Field(1, ge=1, description="Local gateways, which share one address.")
    projectors: int = Field(1, ge=1, description="Local projectors, which share the partitions.")
    maven_mirror: SecretUrl | None = Field(
        None,
        description="Repository of the local Kafka's jars, verified by SHA-256; absent: Maven's central one.",
    )
    kafka_heap_mb: int = Field(512, ge=128, description="Heap of the local Kafka.")
    valkey_fsync: Literal["everysec", "always", "no"] = Field(
        "everysec", description="When the local Valkey flushes its append-only file to the disk."
    )
    stack_start_timeout_s: float = Field(
        60.0, gt=0, description="How long a local server, and then the services, may take to answer."
    )
    stack_min_free_mb: int = Field(512, ge=0, description="Disk space below which the local stack does not start.")

    @model_validator(mode="after")
    def _on_lan(self) -> Self:
        if self.lan:
            self.host = "0.0.0.0"  # noqa: S104
        return self


FILE: Final = "topology.json"
QUORUM: Final = 3
"""The least number of brokers or shards of which the others can replace a lost one."""
FAILOVER_REPLICAS: Final = 2
"""The least number of replicas that leave a promoted primary the one that its writes wait for."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Numbers of brokers, of Valkey's shards, and of replicas of each shard; one shard is no cluster."""

    brokers: int = 1
    valkey_shards: int = 1
    valkey_replicas: int = 0

    @classmethod
    def of(cls, settings: StackSettings, data_dir: Path) -> Self:
        """Return the directory's topology; its first start decides, by the settings, one of each by default.

        Raises `StackError` for another one than the directory's, or one that cannot run.
        """
        file = data_dir / FILE
        asked: dict[str, Any] = {each.name: getattr(settings, each.name) for each in fields(cls)}
        asked = {name: number for name, number in asked.items() if number is not None}
        if file.exists():
            stored = cls(**json.loads(file.read_text()))
            if asked.items() <= asdict(stored).items():
                return stored
            raise errors.other_topology(data_dir, stored.options())
        wanted = cls(**asked)
        wanted._check(settings)
        write_private(file, json.dumps(asdict(wanted)))
        return wanted

    @property
    def is_clustered(self) -> bool:
        return self.valkey_shards > 1

    @property
    def replication_factor(self) -> int:
        """Replicas of a partition of the log."""
        return min(self.brokers, QUORUM)

    def options(self) -> str:
        """Return the options of `tally up` that ask for this topology."""
        return " ".join(f"--{name.replace('_', '-')} {number}" for name, number in asdict(self).items())

    def _check(self, settings: StackSettings) -> None:
        if 1 < self.brokers < QUORUM:
            raise errors.topology_cannot_run(f"{self.brokers} brokers elect no leader once one is lost", "1 or 3")
        if 1 < self.valkey_shards < QUORUM:
            raise errors.topology_cannot_run("two shards promote no replica once one is lost", "1 or 3 shards")
        if self.valkey_replicas and not self.is_clustered:
            raise errors.topology_cannot_run("a single shard promotes no replica", "--valkey-shards 3")
        if 0 < self.valkey_replicas < FAILOVER_REPLICAS:
            raise errors.topology_cannot_run(
                "of one replica, a promoted one has none and refuses writes", "0 or 2"
            )
        if self != Topology() and settings.stack == "containers":
            raise errors.topology_cannot_run("containers are one of each", "TALLY_STACK=native")
        for number, variable, given in (
            (self.brokers, "TALLY_KAFKA_BOOTSTRAP_SERVERS", settings.kafka_bootstrap_servers),
            (self.valkey_shards, "TALLY_VALKEY_URL", settings.valkey_url),
        ):
            if number > 1 and given is not None:
                raise errors.topology_cannot_run(f"{variable} names servers that run already", "without it")
