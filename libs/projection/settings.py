"""Settings of the projector loop."""

from dataclasses import dataclass

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict


class ProjectorSettings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix="TALLY_", extra="ignore", hide_input_in_errors=True)

    projector_session_timeout_ms: int = Field(
        6_000, ge=6_000, description="Silence after which a projector's partitions go to the others."
    )
    projector_max_queued_records: int = Field(
        20_000, ge=1, description="Records fetched ahead of the fold, over all partitions of a topic."
    )
    projector_check_interval_ms: int = Field(
        5_000, ge=50, description="How often the heads of the log are asked for and a stuck consumer is noticed."
    )
    projector_stuck_after_ms: int = Field(
        30_000,
        ge=100,
        description="How long a consumer may bring nothing of a log that has more, until it is replaced.",
    )
    projector_keep_generation_s: int = Field(
        86_400,
        ge=0,
        description="How long what was read before a replay is kept, folded together with what is read now, "
        "in seconds; 0: until `tally replay drop`.",
    )


@dataclass(frozen=True, slots=True)
class Pace:
    """How a topic is read: at most `max_records` at once, asked for every `wait_ms` while nothing comes.

    After a batch of `busy_records` the next is waited for `gather_ms`: a fold costs by the call, not the record.
    """

    wait_ms: int
    max_records: int
    busy_records: int = 0
    gather_ms: int = 0


VOTES = Pace(wait_ms=10, max_records=4_000, busy_records=8, gather_ms=20)
"""4,000 records hold the event loop for some 10 ms."""
CATALOGUE = Pace(wait_ms=5, max_records=500)
"""A writer waits for its record's fold, so it is looked for more often."""
PURCHASES = Pace(wait_ms=20, max_records=1_000)
