"""Settings of the query service."""

from pydantic import Field

from libs.deployment.settings import DeploymentSettings
from libs.web.settings import HttpSettings, OriginSettings


class Settings(DeploymentSettings, HttpSettings, OriginSettings):
    count_build_interval_ms: int = Field(
        100,
        ge=10,
        description="Longest time until votes show in a contest's counts, for reads without min_position.",
    )
    stream_max_public: int = Field(
        5000,
        ge=0,
        description="Streams that a process keeps open to callers without a key; further ones get a 503.",
    )
    stream_max_public_per_address: int = Field(
        100, ge=0, description="Streams of these to one address (IPv6: one /64); further ones get a 503."
    )
    past_rows_per_s: int = Field(
        10_000,
        ge=0,
        description="Rows (participants in partitions) of past counts that a process reads for an account "
        "per second, averaged over 20 s; more get a 429. 0: no limit.",
    )
    count_wait_ms: int = Field(5_000, ge=1, description="Time that a read waits for its min_position; then 503.")
