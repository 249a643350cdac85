"""Renders `deploy/CAPACITY.md` from the results."""

from collections.abc import Iterator, Sequence

from tests.benchmarks.capacity import (
    ASSUMED,
    PEAK_S,
    QUANTITIES,
    RATE,
    SIZES,
    WALLS,
    Known,
    evaluated,
    measured,
    sized,
    walls_of,
)
from tests.benchmarks.figures import Figures
from tests.benchmarks.measurement import Size
from tests.benchmarks.results import Results
from tests.benchmarks.rows import number

INTRODUCTION = """\
# Capacity

Machines and money for more votes than one machine takes. All of it is computed from the figures of
[tests/benchmarks](../tests/benchmarks/README.md) by the formulas below; nothing of this size has been run. The
CPU time of a vote is assumed to be the same on every core, and for every number of processes and partitions.
Measure on your own machines before a show: `uv run python -m tests.benchmarks --only votes bytes memory replay`
writes this page again.
"""
NOTES = f"""\
- The sizes in votes/s keep the votes of a peak of {PEAK_S // 60} minutes. 100 million voters vote within an hour.
- A contest is spread over all partitions by voter, so one large contest needs the same as many small ones.
- A partition is in one shard and has one projector at a time, so choose partitions for the largest show to come.
- Readers need further gateways, and nothing else: see *Reads of vote_updates* and *Streams of counts* in the
  benchmarks. Put a cache before `/public`.
- Prices are examples in dollars. Replace them in `tests/benchmarks/capacity.py` by yours.
"""


def render(results: Results) -> str:
    """Return the page. Raises `NotMeasured` where a figure is missing."""
    return "\n".join(_lines(results)) + "\n"


def _lines(results: Results) -> Iterator[str]:
    figures = Figures(results)
    known = measured(figures)
    sizes = [sized(known, size) for size in SIZES]
    yield INTRODUCTION
    yield "## Sizes\n"
    yield from _table(["", *(size.title for size in SIZES)])
    for quantity in QUANTITIES:
        if quantity.title:
            yield _row([quantity.title, *(_amount(its[quantity.name], quantity.unit) for its in sizes)])
    yield ""
    yield NOTES
    yield "## Walls\n"
    yield "The first limits of a small deployment, in order, at full use:\n"
    yield from _table(["resource", "exhausted at", "then"])
    for wall in sorted(WALLS, key=lambda each: (each.unit != RATE, evaluated(each.limit, sizes[0]))):
        limit = evaluated(wall.limit, sizes[0])
        yield _row([wall.resource, f"{_amount(limit, '')} {wall.unit}", wall.remedy])
    yield ""
    yield "Use of the first table's machines; the first in a row is exhausted first when the load grows:\n"
    yield from _table(["size", "in use"])
    for size, names in zip(SIZES, sizes, strict=True):
        parts = (f"{wall.resource.partition(' (')[0]} {100 * part:.0f} %" for part, wall in walls_of(names))
        yield _row([size.title, ", ".join(parts)])
    yield ""
    yield "## Formulas\n"
    yield from _table(["name", "formula"])
    for quantity in QUANTITIES:
        yield _row([f"`{quantity.name}`", f"`{quantity.formula}`"])
    yield ""
    yield "Measured:\n"
    yield from _known(known)
    yield "Assumed:\n"
    yield from _known(ASSUMED)
    paths = ("votes", "bytes", "memory", "replay")
    yield "Runs:\n"
    for section in map(figures.section, paths):
        busy = ", **busy with other work**" if section.machine.was_busy else ""
        small = ", **small sizes, to try it out**" if section.size is Size.QUICK else ""
        yield f"- {section.title}: {section.measured_at}, {section.machine}{small}{busy}"


def _known(known: Sequence[Known]) -> Iterator[str]:
    yield from _table(["name", "value", "meaning"])
    for each in known:
        yield _row([f"`{each.name}`", f"{_exact(each.value)} {each.unit}".strip(), each.meaning])
    yield ""


def _table(names: Sequence[str]) -> Iterator[str]:
    yield _row(names)
    yield "|" + "---|" * len(names)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _exact(value: float) -> str:
    return f"{value:g}" if value < 1 else f"{number(value)}".removesuffix(".00")


def _amount(value: float, unit: str) -> str:
    """Return a quantity as a person would say it."""
    if unit.startswith("$"):
        return f"{value:,.2f} {unit}" if value < 100 else f"{value:,.0f} {unit}"
    if unit == "bytes/s":
        return f"{number(value / 1e6)} MB/s"
    if unit == "GiB" and value >= 1024:
        return f"{number(value / 1024)} TiB"
    if unit == "h":
        return f"{number(value)} h" if value >= 1 else f"{number(value * 60)} min"
    if unit == "" and value >= 1e6:
        return f"{number(value / 1e6).removesuffix('.00')} million"
    return f"{value:,.0f} {unit}".strip()
