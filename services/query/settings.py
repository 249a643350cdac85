"""Settings of the query service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings


class Settings(DeploymentSettings, HttpSettings):
    count_build_interval_ms: int = Field(
        100, ge=10, description="Most time that the votes of a contest take to show, for callers that name none."
    )
    stream_max_public: int = Field(
        5000, ge=0, description="Streams that a process keeps open to callers without a key; one more: 503."
    )
    stream_max_public_per_address: int = Field(
        100, ge=0, description="Of these, streams to one address (IPv6: one /64); one more: 503."
    )
    past_rows_per_s: int = Field(
        10_000,
        ge=0,
        description="Rows (participants in partitions) of past counts that a process reads for an account, "
        "a second, over 20 s; 0: no limit. More: 429.",
    )
    count_wait_ms: int = Field(5_000, ge=1, description="How long a read waits for its min_position.")
