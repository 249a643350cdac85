"""Results of the benchmarks: sections by path, as kept in `results.json`."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from tests.benchmarks.machine import Machine
from tests.benchmarks.measurement import Measurement, Size

HERE = Path(__file__).parent
JSON, README, PAGE = "results.json", "README.md", "results.html"


@dataclass(frozen=True, slots=True)
class Section:
    """All measurements of one path in one run; `failure` says why there are none or not all."""

    path: str
    title: str
    size: Size
    measured_at: str
    took_s: float
    machine: Machine
    measurements: Sequence[Measurement] = ()
    failure: str = ""


@dataclass(frozen=True, slots=True)
class Results:
    """Sections in the order of the table of paths."""

    sections: Sequence[Section] = ()

    def updated(self, fresh: Sequence[Section], order: Sequence[str]) -> "Results":
        """Return these with the fresh sections instead of older ones of the same path."""
        by_path = {section.path: section for section in (*self.sections, *fresh)}
        return Results([by_path[path] for path in order if path in by_path])


_RESULTS = TypeAdapter(Results)
_MEASUREMENTS = TypeAdapter(list[Measurement])


def load(folder: Path = HERE) -> Results:
    """Return the kept results, empty ones if there are none."""
    file = folder / JSON
    return _RESULTS.validate_json(file.read_bytes()) if file.exists() else Results()


def save(results: Results, folder: Path) -> None:
    (folder / JSON).write_bytes(_RESULTS.dump_json(results, indent=1) + b"\n")


def dump_measurements(measurements: list[Measurement]) -> bytes:
    return _MEASUREMENTS.dump_json(measurements)


def parse_measurements(text: bytes) -> list[Measurement]:
    return _MEASUREMENTS.validate_json(text)
