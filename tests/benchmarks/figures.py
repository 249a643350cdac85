"""Looks up measured figures by path, measurement and party."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.measurement import OURS, Measurement, Party
from tests.benchmarks.results import Results, Section

LOG, APPEND_ONLY_FILE = "in the log, one copy", "in Valkey's append-only file, one copy"
TO_VALKEY, FROM_VALKEY = "sent to Valkey", "received from Valkey"
EQUAL = "FastAPI, the same work"
REQUEST, ANSWER = "HTTP request", "HTTP answer"


class NotMeasured(LookupError):
    """A figure that the results do not hold yet."""


@dataclass(frozen=True, slots=True)
class Figures:
    results: Results

    def section(self, path: str) -> Section:
        for section in self.results.sections:
            if section.path == path and section.measurements:
                return section
        raise NotMeasured(f"the path {path} was not measured")

    def measurement(self, path: str, name: str) -> Measurement:
        for measurement in self.section(path).measurements:
            if measurement.name == name:
                return measurement
        raise NotMeasured(f"the path {path} has no figure {name!r}")

    def party(self, path: str, name: str, party: str = OURS) -> Party:
        measurement = self.measurement(path, name)
        for each in (measurement.ours, *measurement.others):
            if each.name == party:
                return each
        raise NotMeasured(f"the path {path} has no {party!r} for {name!r}")

    def value(self, path: str, name: str, party: str = OURS) -> float:
        return self.party(path, name, party).value

    def cpu_us(self, path: str, name: str) -> Mapping[str, float]:
        return self.party(path, name).cpu_us
