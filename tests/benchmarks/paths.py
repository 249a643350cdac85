"""The table of all benchmarks: one row per path through the service."""

import importlib
from dataclasses import dataclass
from typing import cast

from tests.benchmarks.alone import Measure


@dataclass(frozen=True, slots=True)
class Path:
    """A path: its benchmark is `measure` in `tests.benchmarks.<module>`; a long one runs when asked for only."""

    name: str
    module: str
    title: str
    description: str
    is_long: bool = False

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
        "batch",
        "bench_batch",
        "POST of a batch",
        "Eight clients post batches of 1,000 votes as JSON; each vote is checked and answered by itself.",
    ),
    Path(
        "fold",
        "bench_fold",
        "Fold of the votes log",
        "One process folds the topic from its beginning, three votes a voter, into votes and exact unique voters "
        "per participant and source, durably. Tallykeeper also finds repeated vote ids, judges limits, keeps "
        "the timeline and what removals and receipts need.",
    ),
    Path(
        "replay",
        "bench_replay",
        "Replay",
        "`tally replay run` folds the whole log into a new generation beside the live one, which goes on; the "
        "live fold is the projector's loop over the same log.",
    ),
    Path(
        "tenfold",
        "bench_tenfold",
        "Replay of ten million votes",
        "The same with ten times as many votes, and its time over that for a million in the same run.",
        is_long=True,
    ),
    Path(
        "counts",
        "bench_query",
        "Reads of vote_updates",
        "64 connections read the vote count record of one contest, quiet and while votes change it ten times a "
        "second; CPU time of the changes is included.",
    ),
    Path(
        "streams",
        "bench_streams",
        "Streams of counts",
        "Subscribers of one contest's server-sent events; one vote after another, each received by all.",
    ),
    Path(
        "memory",
        "bench_memory",
        "Memory",
        "Growth of Valkey's memory by a folded contest of 100 participants, per voter, and the ledger's part; "
        "processes after their start, without what they share with others.",
    ),
    Path(
        "bytes",
        "bench_bytes",
        "Bytes of a vote",
        "Stored and sent for one vote, while 256 clients post single votes.",
    ),
    Path(
        "growth",
        "bench_growth",
        "Cost of growth",
        "CPU time of folding a vote, of all processes, before and after growth; 15 % more is a ratio of 0.87.",
    ),
    Path(
        "partitions",
        "bench_partitions",
        "Cost of partitions and gateways",
        "CPU time of the whole service with few and many partitions: idle, idle with a stream of counts, and "
        "of a vote by one gateway and by two. 1.3 times as much is a ratio of 0.77, 15 % more one of 0.87.",
    ),
    Path(
        "visible",
        "bench_visible",
        "From POST to visible",
        "One vote after another, from its POST until `vote_updates` includes it.",
    ),
    Path("start", "bench_start", "Start", "From `tally up` to the first 200 of `/readyz`."),
)
BY_NAME = {path.name: path for path in PATHS}
