"""Settings of projectors."""

from dataclasses import dataclass

from pydantic import Field

from libs.telemetry.environment_settings import EnvironmentSettings


class ProjectorSettings(EnvironmentSettings):
    projector_session_timeout_ms: int = Field(
        6_000, ge=6_000, description="Silence after which a projector's partitions are reassigned."
    )
    projector_max_queued_records: int = Field(
        20_000, ge=1, description="Maximum records prefetched, over all partitions of a topic."
    )
    projector_check_interval_ms: int = Field(
        5_000, ge=50, description="Interval between checks for the log's end offsets and stuck consumers."
    )
    projector_stuck_after_ms: int = Field(
        30_000,
        ge=100,
        description="Time without records of a log that has more, after which a consumer is replaced.",
    )
    projector_keep_generation_s: int = Field(
        86_400,
        ge=0,
        description="Retention time of the views that were read before a replay, in seconds; they are updated "
        "meanwhile. 0: until `tally replay drop`.",
    )


FETCH_WAIT_MS, LONGEST_FETCH_WAIT_MS = 500, 2_000
"""Bounds of the time after which a fetch without records is answered. Records of any of its partitions end it."""
FETCHED_PARTITIONS = 64
"""Partitions that fetches name within `FETCH_WAIT_MS`: those of more partitions wait longer. aiokafka has no
incremental fetches (KIP-227), so each costs some 20 us for each partition."""


def fetch_wait_ms(partitions: int, request_timeout_ms: int) -> int:
    """Return how long a fetch of so many partitions waits for records; a request must not take longer."""
    flat_ms = FETCH_WAIT_MS * partitions // FETCHED_PARTITIONS
    return min(max(flat_ms, FETCH_WAIT_MS), LONGEST_FETCH_WAIT_MS, request_timeout_ms // 2)


@dataclass(frozen=True, slots=True)
class Pace:
    """Polling of a topic: at most `max_records` per poll.

    With at least `busy_records` within `gather_ms`, waits so long before the next poll: a fold costs per call, not
    per record (`Gathering`).
    """

    max_records: int
    busy_records: int = 0
    gather_ms: int = 0


VOTES = Pace(max_records=4_000, busy_records=8, gather_ms=50)
"""4,000 records block the event loop for about 10 ms. A vote takes Valkey 102 us by one of a partition, 62 by 2,
45 by 4, 27 by 8 and 24 by 16."""
CATALOGUE = Pace(max_records=500)
PURCHASES = Pace(max_records=1_000)
