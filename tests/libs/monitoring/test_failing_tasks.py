"""Metrics of a projector name its failing tasks; an error in place of metrics names none."""

from libs.monitoring.collector import PART_UP, failing_tasks
from tests.support.web_host import open_host

METRICS = f'{PART_UP}{{part="votes"}} 1\n{PART_UP}{{part="purchases"}} 0\n'.encode()


async def test_an_error_in_place_of_metrics_is_not_read_as_metrics() -> None:
    async with open_host() as host:
        working = host.respond("/metrics", METRICS)
        failed = host.respond("/failed", b"Internal Server Error", "500 Internal Server Error")
        assert await failing_tasks([failed]) == []
        assert await failing_tasks([failed, working]) == ["purchases"]
