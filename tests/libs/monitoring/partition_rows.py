"""A partition's status with nothing to report."""

from libs.monitoring.status import PartitionStatus
from libs.views.generations.generations import ProjectionName


def a_partition(projection: ProjectionName) -> PartitionStatus:
    return PartitionStatus(
        projection=projection,
        partition=0,
        generation=0,
        position=1,
        end=1,
        lag_s=0,
        last_event=None,
        stalled_since=None,
        quarantined=0,
        dropped=0,
        schema=1,
        code_schema=1,
        generations=[],
    )
