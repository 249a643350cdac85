"""Renders `README.md` of the benchmarks from the results."""

import re
from collections.abc import Iterator, Sequence

from tests.benchmarks import summary
from tests.benchmarks.figures import Figures, NotMeasured
from tests.benchmarks.limits import limit_of
from tests.benchmarks.measurement import Measurement, Size, Verdict
from tests.benchmarks.paths import PATHS
from tests.benchmarks.results import Results, Section
from tests.benchmarks.rows import HEAD, goal_text, number, rows_of, value_text

TITLE = "# Benchmarks\n"
COMMANDS = """\
## How they are measured

    uv run python -m tests.benchmarks                    # all short paths; writes the documents named below
    uv run python -m tests.benchmarks --resume           # the rest of a run that was interrupted
    uv run python -m tests.benchmarks --only votes fold  # some of them; the others' results stay
    uv run python -m tests.benchmarks --only tenfold     # ten million votes, half an hour; --long: all and this
    uv run python -m tests.benchmarks --quick            # small sizes, to try it out; writes nothing
    uv run python -m tests.benchmarks --list
    uv run python -m tests.benchmarks.bench_votes        # one alone

This page is written by the first command, and so are `results.json`, the figures in the
project's README and [deploy/CAPACITY.md](../../deploy/CAPACITY.md). Each path is written as soon as it ends, with
its date, machine and commit.

Everything runs on one machine, servers and load together, all parties in turns; a figure is the median of the
rounds, a ratio the median of the rounds' ratios. A ratio above 1 means that Tallykeeper is better: its rate over
the other's, or the other's time, size or CPU time over its own. A ceiling does the least that this path needs,
without the work. CPU time is that of all server processes, the broker included, per unit of work. On a machine
that does other work at the same time only the ratios by CPU are of use.

Loads of HTTP need `wrk`. Peers run in environments of their own, installed at their first run: `uv` resolves the
dependencies in the head of each `peers/*.py`; the jars of Kafka Streams come from Maven's central repository.
"""
PATH_CELLS = "path", "goals met", "measured"
GOALS = "figure", "Tallykeeper", "compared with", "ratio", "goal", "met"


def render(results: Results) -> str:
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    yield TITLE
    try:
        yield f"{summary.paragraph(Figures(results))}\n"
    except NotMeasured as missing:
        yield f"There is no summary yet: {missing}.\n"
    measured = {section.path: section for section in results.sections}
    yield from _table(PATH_CELLS)
    for path in PATHS:
        yield _line((_link(path.title), *_overview(measured.get(path.name))))
    yield f"\n{COMMANDS}"
    for path in PATHS:
        yield f"## {path.title}\n\n{path.description}\n"
        yield from _section(measured[path.name]) if path.name in measured else ["Not measured yet.\n"]


def _link(title: str) -> str:
    return f"[{title}](#{re.sub(r'[^a-z0-9_ -]', '', title.lower()).replace(' ', '-')})"


def _overview(section: Section | None) -> tuple[str, str]:
    if section is None:
        return "", "not yet"
    verdicts = section.verdicts()
    met = f"{sum(verdict.is_met for _, verdict in verdicts)} of {len(verdicts)}" if verdicts else "none is set"
    return met, f"{section.measured_at}{', busy machine' if section.machine.was_busy else ''}"


def _goals(section: Section) -> Iterator[str]:
    """Yield the table of the goals that have a verdict."""
    rows = section.verdicts()
    if rows:
        yield from _table(GOALS)
        yield from (_line(_goal_cells(*row)) for row in rows)


def _goal_cells(measurement: Measurement, verdict: Verdict) -> Sequence[str]:
    goal = verdict.goal
    by = " by CPU" if goal.by == "cpu" else ""
    return (
        measurement.name,
        value_text(measurement, measurement.ours),
        goal.against,
        f"{number(verdict.figure)} ×{by}" if goal.against else "",
        goal_text(measurement, goal),
        "yes" if verdict.is_met else "**no**",
    )


def _section(section: Section) -> Iterator[str]:
    if section.failure:
        older = " The figures are of the run before." if section.measurements else ""
        yield f"The latest run failed: {_plain(section.failure)}.{older}\n"
    yield from _folded("Goals", _goals(section))
    yield from _folded("Goals that are not met, and why", _limits(section))
    yield from _folded("All figures", _figures(section))
    busy = " **The machine was busy with other work.**" if section.machine.was_busy else ""
    size = " **Small sizes, to try it out.**" if section.size is Size.QUICK else ""
    yield f"{section.measured_at}, {section.took_s:.0f} s: {section.machine}.{size}{busy}\n"


def _folded(title: str, lines: Iterator[str]) -> Iterator[str]:
    """Yield lines below a title that opens them, if there are any."""
    inside = list(lines)
    if inside:
        yield f"<details><summary>{title}</summary>\n"
        yield from inside
        yield "\n</details>\n"


def _figures(section: Section) -> Iterator[str]:
    if section.measurements:
        yield from _table(HEAD.cells)
        for measurement in section.measurements:
            yield from (_line(row.cells) for row in rows_of(measurement))
    notes = {
        party.name: party.note
        for measurement in section.measurements
        for party in measurement.others
        if party.note
    }
    if notes:
        yield ""
    yield from (f"- {name}: {note}." for name, note in notes.items())


def _limits(section: Section) -> Iterator[str]:
    """Yield the reasons of the goals that are missed, each once, with all that it explains."""
    missed: dict[str, list[str]] = {}
    for measurement, verdict in section.verdicts():
        if not verdict.is_met:
            against = f" against {verdict.goal.against}" if verdict.goal.against else ""
            reason = limit_of(section.path, measurement.name, verdict.goal.against)
            missed.setdefault(reason, []).append(f"{measurement.name}{against}")
    yield from (f"- {'; '.join(dict.fromkeys(names))}. {reason}" for reason, names in missed.items())


def _table(names: Sequence[str]) -> Iterator[str]:
    yield _line(names)
    yield "|" + "---|" * len(names)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_plain(cell).replace("|", "\\|") for cell in cells) + " |"


def _plain(text: str) -> str:
    return " ".join(text.split())
