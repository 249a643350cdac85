"""The figures that a user asks for, in the project's README between two marks and on the benchmarks' page."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tests.benchmarks.figures import EQUAL, Figures
from tests.benchmarks.measurement import Measurement
from tests.benchmarks.results import Results
from tests.benchmarks.rows import goal_text, number

BEGIN, END = "<!-- figures written by tests/benchmarks -->", "<!-- end of figures -->"


class Asked(NamedTuple):
    """A figure of Tallykeeper beside that of a peer, if there is one."""

    text: str
    path: str
    figure: str
    peer: str = ""


PAGE: Final = "[goals](tests/benchmarks/README.md)"
ASKED: Final = (
    Asked("one vote a request, 256 clients", "votes", "256 clients, 1 worker", EQUAL),
    Asked("its 99th percentile", "votes", "256 clients, 1 worker: p99", EQUAL),
    Asked("batches of 1,000 votes", "batch", "batches of 1,000 votes, 8 clients", EQUAL),
    Asked(
        "reads of `vote_updates` while votes come in", "counts", "20 participants, changing", "FastAPI + HGETALL"
    ),
    Asked("replay of a million votes", "replay", "replay of 1,000,000 votes"),
    Asked("memory of a voter with three votes", "memory", "a voter with 3 votes", "Redis set + hash"),
)


def inserted(document: str, results: Results) -> str:
    """Return the document with the results' figures between the marks. Raises `NotMeasured`."""
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no place for figures: {BEGIN} {END}")
    return f"{before}{BEGIN}\n{paragraph(Figures(results), PAGE)}\n{END}{after}"


def paragraph(figures: Figures, goals: str = "goals") -> str:
    """Return a table of the figures, and what they miss of the `goals`, a word. Raises `NotMeasured`."""
    machine = figures.section("votes").machine
    busy = " It was busy with other work: ratios say more than rates." if machine.was_busy else ""
    asked = [(each, figures.measurement(each.path, each.figure)) for each in ASKED]
    missed = [f"{each.text} ({'; '.join(found)})" for each, of in asked if (found := [*_missed(of)])]
    return "\n".join(
        (
            f"On {machine.cores} cores ({machine.processor}) that also run Kafka, Valkey and the load.{busy}",
            f"*{EQUAL}* is what an engineer writes in a day: vote ids, limits, log, counts and unique voters.",
            "",
            "| one process | Tallykeeper | compared with | ratio |",
            "|---|---|---|---|",
            *(_row(figures, *each) for each in asked),
            "",
            f"Missed {goals} of these: {'; '.join(missed) or 'none'}.",
        )
    )


def _missed(measurement: Measurement) -> Iterator[str]:
    for verdict in measurement.verdicts():
        if not verdict.is_met:
            against = f" against {verdict.goal.against}" if verdict.goal.against else ""
            yield f"{number(verdict.figure)}, not {goal_text(measurement, verdict.goal)}{against}"


def _row(figures: Figures, asked: Asked, measurement: Measurement) -> str:
    ours = f"{number(measurement.ours.value)} {measurement.unit}"
    if not asked.peer:
        return f"| {asked.text} | {ours} | none of the peers can | |"
    peer = figures.party(asked.path, asked.figure, asked.peer)
    theirs = f"{peer.name}: {number(peer.value)}"
    return f"| {asked.text} | {ours} | {theirs} | {number(measurement.ratio(peer))} × |"
