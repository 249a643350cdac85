"""Settings of Kafka clients."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, SecretStr, model_validator

from libs.telemetry.environment_settings import EnvironmentSettings


class KafkaSettings(EnvironmentSettings):
    kafka_bootstrap_servers: str = Field(
        "127.0.0.1:9092",
        description="Addresses of Kafka, host:port, comma-separated; user:password@ before them logs in with "
        "SASL PLAIN.",
    )
    kafka_security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="Encryption and authentication of connections to Kafka."
    )
    kafka_sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        "SCRAM-SHA-512", description="SASL mechanism, for the SASL security protocols."
    )
    kafka_username: str = Field("", description="User for SASL.")
    kafka_password: SecretStr | None = Field(None, description="Password for SASL.")
    kafka_ca_file: Path | None = Field(
        None, description="PEM file of the CAs that sign Kafka's certificates; default: the system's."
    )
    kafka_certificate_file: Path | None = Field(
        None, description="PEM file of this client's certificate, for mutual TLS."
    )
    kafka_key_file: Path | None = Field(
        None, description="PEM file of that certificate's key; default: the certificate's file."
    )
    kafka_client_rack: str = Field(
        "",
        description="Rack of this process, as the brokers name theirs (broker.rack): it then reads from replicas "
        "there.",
    )
    kafka_replication_factor: int = Field(
        1, ge=1, description="Replication factor of new topics; with 3 or more, min.insync.replicas is 2."
    )
    log_flush: Literal["every", "replicas"] = Field(
        "every",
        description="What an acknowledged record rests on. `every`: the disks of all in-sync replicas, which "
        "costs a write to the disk for each append. `replicas`: their memory, safe only if no power cut takes "
        "min.insync.replicas of them at once (their brokers name different racks, broker.rack).",
    )
    kafka_request_timeout_ms: int = Field(
        5_000, ge=100, description="Time without a response after which a connection to a broker is replaced."
    )
    produce_deadline_ms: int = Field(
        5_000,
        ge=10,
        description="Time for a record to be acknowledged, after which its outcome is unknown. With several "
        "brokers, at least their broker.session.timeout.ms and 3 s: a lost broker then costs no fence.",
    )
    produce_linger_ms: int = Field(
        2,
        ge=0,
        description="Minimum time between two requests to a broker while each carries several records: fewer, "
        "larger requests under load. A lone record is sent at once.",
    )
    produce_max_queued_records: int = Field(
        20_000, ge=1, description="Maximum records that a process queues for Kafka; more are refused at once."
    )
    produce_max_record_bytes: int = Field(
        900_000,
        ge=1_000,
        le=1_000_000,
        description="Maximum size of a record; Kafka's own limit is 1 MiB per batch.",
    )
    produce_max_batch_bytes: int = Field(
        512 * 1024, ge=1_000, le=1_000_000, description="Maximum size of a batch to one partition."
    )
    produce_compression: Literal["none", "gzip"] = Field(
        "none",
        description="Compression of batches. With gzip, an event of 500 bytes takes 100 in batches of 20 and 345 "
        "alone; this costs 2.4 or 13 µs of CPU an event, and 1 or 10 µs in each reader: for brokers whose disks "
        "or networks are the limit.",
    )
    produce_max_retired_producers: int = Field(
        8, ge=1, description="Maximum replaced producers that may still deliver their accepted records."
    )

    votes_topic_settle_s: float = Field(
        10.0,
        gt=0,
        description="Time after a growth of the votes log until new contests use its new topic; the same in all "
        "processes, of which each must have found the topic by then.",
    )

    @property
    def uses_tls(self) -> bool:
        return self.kafka_security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.kafka_security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def is_on_loopback(self) -> bool:
        hosts = (address.strip().rpartition(":")[0] for address in self.kafka_bootstrap_servers.split(","))
        return all(host in ("localhost", "[::1]") or host.startswith("127.") for host in hosts)

    @model_validator(mode="before")
    @classmethod
    def _read_credentials(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Move credentials from the addresses, as a local stack names them, to their own settings."""
        credentials, at, addresses = str(values.get("kafka_bootstrap_servers", "")).rpartition("@")
        if not at:
            return values
        username, _, password = credentials.partition(":")
        found = {"kafka_bootstrap_servers": addresses, "kafka_username": username, "kafka_password": password}
        return {"kafka_security_protocol": "SASL_PLAINTEXT", "kafka_sasl_mechanism": "PLAIN"} | values | found

    @model_validator(mode="after")
    def _security_is_complete(self) -> Self:
        """Refuse settings that would connect with less protection than they specify."""
        protocol = self.kafka_security_protocol
        if self.uses_sasl and not (self.kafka_username and self.kafka_password):
            raise ValueError(f"TALLY_KAFKA_SECURITY_PROTOCOL={protocol} needs TALLY_KAFKA_USERNAME and _PASSWORD")
        if not self.uses_sasl and self.kafka_username:
            raise ValueError(
                f"TALLY_KAFKA_USERNAME is set, but TALLY_KAFKA_SECURITY_PROTOCOL is {protocol}: use SASL_SSL"
            )
        if not self.uses_tls and (self.kafka_ca_file or self.kafka_certificate_file):
            raise ValueError(
                f"Kafka's certificates are set, but TALLY_KAFKA_SECURITY_PROTOCOL is {protocol}: use SSL, SASL_SSL"
            )
        return self


def least_in_sync(replicas: int) -> int:
    """Return how many of a partition's replicas must have a record before it is acknowledged."""
    return 2 if replicas >= 3 else 1
