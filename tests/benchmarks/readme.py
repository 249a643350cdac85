"""Renders `README.md` of the benchmarks from the results."""

from collections.abc import Iterator

from tests.benchmarks.paths import PATHS
from tests.benchmarks.results import Results, Section
from tests.benchmarks.rows import HEAD, Row, rows_of

INTRODUCTION = """\
# Benchmarks

    uv run python -m tests.benchmarks                    # all; writes this page, results.json and results.html
    uv run python -m tests.benchmarks --only votes fold  # some of them; the others' results stay
    uv run python -m tests.benchmarks --long             # with a replay of 10 million votes
    uv run python -m tests.benchmarks --quick            # small sizes, to try it out; writes nothing
    uv run python -m tests.benchmarks --list
    uv run python -m tests.benchmarks.bench_votes        # one alone

This page is written by the first command. Everything runs on one machine, servers and load together, all parties
in turns; a figure is the median of the rounds, a ratio the median of the rounds' ratios. A ratio above 1 means
that Tallykeeper is better: its rate over the other's, or the other's time, size or CPU time over its own. A
ceiling does the least that this path needs, without the work. CPU time is that of all server processes, the broker
included, per unit of work. On a machine that does other work at the same time only the ratios by CPU are of use.

Loads of HTTP need `wrk`. Peers run in environments of their own, installed at their first run: `uv` resolves the
dependencies in the head of each `peers/*.py`; the jars of Kafka Streams come from Maven's central repository.
"""


def render(results: Results) -> str:
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield INTRODUCTION
    measured = {section.path: section for section in results.sections}
    for path in PATHS:
        yield f"## {path.title}\n\n{path.description}\n"
        yield from _section(measured[path.name]) if path.name in measured else ["Not measured yet.\n"]


def _section(section: Section) -> Iterator[str]:
    if section.failure:
        yield f"Failed: {section.failure}\n"
    if section.measurements:
        yield _line(HEAD)
        yield "|---|---|---|---|---|---|"
        for measurement in section.measurements:
            yield from map(_line, rows_of(measurement))
        yield ""
    notes = {
        party.name: party.note
        for measurement in section.measurements
        for party in measurement.others
        if party.note
    }
    yield from (f"- {name}: {note}." for name, note in notes.items())
    if notes:
        yield ""
    busy = " **The machine was busy with other work.**" if section.machine.was_busy else ""
    yield f"{section.measured_at}, {section.took_s:.0f} s: {section.machine}.{busy}\n"


def _line(row: Row) -> str:
    cells = row.figure, row.party, row.value, row.cpu, row.ratio, row.goal
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
