"""The table of all benchmarks: one row per path through the service."""

import importlib
from dataclasses import dataclass
from typing import cast

from tests.benchmarks.alone import Measure


@dataclass(frozen=True, slots=True)
class Path:
    """A path: its benchmark is `measure` in `tests.benchmarks.<module>`."""

    name: str
    module: str
    title: str
    description: str

    @property
    def measure(self) -> Measure:
        return cast("Measure", importlib.import_module(f"tests.benchmarks.{self.module}").measure)


PATHS = (
    Path(
        "votes",
        "bench_votes",
        "POST of one vote",
        "One vote a request over kept-alive connections: 100 participants, three votes a voter. Tallykeeper "
        "checks key, limits and vote id, appends to Kafka, waits for all in-sync replicas, and counts.",
    ),
    Path(
        "fold",
        "bench_fold",
        "Fold of the votes log",
        "One process folds the topic from its beginning, three votes a voter, into votes and exact unique voters "
        "per participant and source, durably. Tallykeeper also looks for repeated vote ids, judges limits, keeps "
        "the timeline and what removals and receipts need.",
    ),
)
BY_NAME = {path.name: path for path in PATHS}
