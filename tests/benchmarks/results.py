"""Results of the benchmarks: sections by path, as kept in `results.json`."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import TypeAdapter

from tests.benchmarks.machine import Machine
from tests.benchmarks.measurement import Measurement, Size, Verdict

HERE = Path(__file__).parent
JSON = "results.json"


@dataclass(frozen=True, slots=True)
class Section:
    """All measurements of one path in one run; `failure` is the reason why the latest run did not finish."""

    path: str
    title: str
    size: Size
    measured_at: str
    took_s: float
    machine: Machine
    measurements: Sequence[Measurement] = ()
    failure: str = ""

    def verdicts(self) -> list[tuple[Measurement, Verdict]]:
        """Return the verdict of each goal whose party was measured, with its measurement."""
        return [(each, verdict) for each in self.measurements for verdict in each.verdicts()]


@dataclass(frozen=True, slots=True)
class Results:
    """Sections in the order of the table of paths."""

    sections: Sequence[Section] = ()

    def updated(self, fresh: Sequence[Section], order: Sequence[str]) -> "Results":
        """Return these with the fresh sections instead of older ones of the same path.

        A run without figures keeps the older figures, and adds its failure to them.
        """
        by_path = {section.path: section for section in self.sections}
        for section in fresh:
            older = by_path.get(section.path)
            is_kept = older is not None and older.measurements and not section.measurements
            by_path[section.path] = replace(older, failure=section.failure) if older and is_kept else section
        return Results([by_path[path] for path in order if path in by_path])

    def is_measured(self, path: str, size: Size, commit: str) -> bool:
        """Return whether a path was measured whole, in this size and at this commit."""
        return any(
            section.path == path
            and section.size is size
            and section.machine.commit == commit
            and section.measurements
            and not section.failure
            for section in self.sections
        )


_RESULTS = TypeAdapter(Results)
_MEASUREMENTS = TypeAdapter(list[Measurement])


def load(folder: Path = HERE) -> Results:
    """Return the kept results, empty ones if there are none."""
    file = folder / JSON
    return _RESULTS.validate_json(file.read_bytes()) if file.exists() else Results()


def save(results: Results, folder: Path) -> None:
    """Replace the kept results; a run that ends meanwhile leaves the old ones."""
    new = folder / f"{JSON}.new"
    new.write_bytes(_RESULTS.dump_json(results, indent=1) + b"\n")
    new.replace(folder / JSON)


def dump_measurements(measurements: list[Measurement]) -> bytes:
    return _MEASUREMENTS.dump_json(measurements)


def parse_measurements(text: bytes) -> list[Measurement]:
    return _MEASUREMENTS.validate_json(text)
