"""Metrics as they are scraped."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from libs.metrics.table import REGISTRY

OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}


def refusals(reason: str) -> float:
    """Refusals of this process so far."""
    count = REGISTRY.get_sample_value("tally_http_refusals_total", {"reason": reason})
    assert count is not None, "each reason is there from the start"
    return count


class Scrape:
    """What some processes say at a moment."""

    def __init__(self, families: Mapping[str, list[Metric]]) -> None:
        self.families = families
        """By process."""

    def samples(self, name: str, **labels: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """By process and labels."""
        return {
            (process, tuple(sorted(sample.labels.items()))): sample.value
            for process, families in self.families.items()
            for family in families
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        }

    def own(self, name: str, **labels: str) -> float:
        """What processes did by themselves, together."""
        return sum(self.samples(name, **labels).values())

    def of_all(self, name: str, **labels: str) -> float:
        """What every process says alike, added up over the other labels."""
        largest: dict[object, float] = {}
        for (_, rest), value in self.samples(name, **labels).items():
            largest[rest] = max(value, largest.get(rest, value))
        return sum(largest.values())

    @property
    def names(self) -> set[str]:
        """Of the families of which there are samples."""
        return {family.name for families in self.families.values() for family in families if family.samples}


async def scrape(urls: Mapping[str, str]) -> Scrape:
    """In OpenMetrics, whose parser is the stricter one."""
    found = {}
    async with httpx.AsyncClient(timeout=10) as client:
        for process, url in urls.items():
            answer = await client.get(url, headers=OPENMETRICS)
            assert answer.status_code == 200, answer.text
            found[process] = list(text_string_to_metric_families(answer.text))  # type: ignore[no-untyped-call]
    return Scrape(found)
