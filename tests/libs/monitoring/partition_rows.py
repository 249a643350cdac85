"""A partition's status with nothing to report."""

from typing import Any

from libs.monitoring.status import PartitionStatus
from libs.views.generations.generations import ProjectionName


def a_partition(projection: ProjectionName, **members: Any) -> PartitionStatus:
    well = {"partition": 0, "generation": 1, "position": 1, "end": 1, "lag_s": 0.0, "quarantined": 0, "dropped": 0}
    unset: dict[str, Any] = {
        "last_event": None,
        "stalled_since": None,
        "generations": [],
        "schema": 1,
        "code_schema": 1,
    }
    return PartitionStatus(projection=projection, **(well | unset | members))
