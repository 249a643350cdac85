"""Reads scraped metrics."""

from collections.abc import Mapping

from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from libs.telemetry.metrics import REGISTRY
from tests.support.clients.http_clients import http_client

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def refusals(reason: str) -> float:
    """Return the number of refusals in this process."""
    count = REGISTRY.get_sample_value("tally_http_refusals_total", {"reason": reason})
    assert count is not None, "each reason is there from the start"
    return count


class Scrape:
    """Metrics of several processes at one time."""

    def __init__(self, families: Mapping[str, list[Metric]]) -> None:
        self.families = families
        """Metric families by process."""

    def samples(self, name: str, **labels: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Return values by process and labels."""
        return {
            (process, tuple(sorted(sample.labels.items()))): sample.value
            for process, families in self.families.items()
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def total(self, name: str, **labels: str) -> float:
        """Return the sum over the processes, each of which counts its own."""
        return sum(self.samples(name, **labels).values())

    def shared_total(self, name: str, **labels: str) -> float:
        """Return a value that all processes report alike, added up over the other labels."""
        largest: dict[object, float] = {}
        for (_, rest), value in self.samples(name, **labels).items():
            largest[rest] = max(value, largest.get(rest, value))
        return sum(largest.values())

    @property
    def names(self) -> set[str]:
        """Return the names of the families that have samples."""
        return {family.name for families in self.families.values() for family in families if family.samples}


async def scrape(urls: Mapping[str, str]) -> Scrape:
    """Scrape the processes in OpenMetrics, whose parser is the stricter one."""
    found = {}
    async with http_client(timeout=10) as client:
        for process, url in urls.items():
            answer = await client.get(url, headers=OPENMETRICS)
            assert answer.status_code == 200, answer.text
            found[process] = list(text_string_to_metric_families(answer.text))
    return Scrape(found)
