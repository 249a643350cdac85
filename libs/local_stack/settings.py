"""Settings of the local stack."""

from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from libs.storage.private_files import default_data_dir
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
    stack_start_timeout_s: float = Field(60.0, gt=0, description="How long a local server may take to answer.")
    stack_min_free_mb: int = Field(512, ge=0, description="Disk space below which the local stack does not start.")

    @model_validator(mode="after")
    def _on_lan(self) -> Self:
        if self.lan:
            self.host = "0.0.0.0"  # noqa: S104
        return self
