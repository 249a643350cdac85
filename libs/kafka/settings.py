"""Settings of everything that talks to Kafka."""

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class KafkaSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore")

    kafka_bootstrap_servers: str = Field(
        "127.0.0.1:9092", description="Addresses of Kafka, host:port, several parted by commas."
    )
    kafka_replication_factor: int = Field(
        1, ge=1, description="Copies of each topic when it is created; with 3 or more, 2 must be in sync."
    )
    kafka_request_timeout_ms: int = Field(
        5_000, ge=100, description="Silence after which a connection to a broker is given up and made anew."
    )
    produce_deadline_ms: int = Field(
        5_000, ge=10, description="How long a record may take to be acknowledged before its outcome is unknown."
    )
    produce_linger_ms: int = Field(
        2, ge=0, description="Least time between two batches to a broker: fewer, larger requests under load."
    )
    produce_max_queued_records: int = Field(
        20_000, ge=1, description="Records a process holds for Kafka; one more is refused at once."
    )
    produce_max_record_bytes: int = Field(
        900_000, ge=1_000, le=1_000_000, description="Largest record; Kafka's own limit is 1 MiB a batch."
    )
    produce_max_batch_bytes: int = Field(
        512 * 1024, ge=1_000, le=1_000_000, description="Most bytes sent to one partition in one batch."
    )
    produce_max_retired_producers: int = Field(
        8, ge=1, description="Replaced producers that may still be delivering what they had taken on."
    )
