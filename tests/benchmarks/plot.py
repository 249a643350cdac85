"""Draws the ratios of all measurements: an SVG in a page without scripts."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from tests.benchmarks.measurement import Measurement
from tests.benchmarks.results import Results
from tests.benchmarks.rows import number

ROW, HEADING, LABELS, WIDTH, VALUES = 20, 34, 460, 520, 90
LOW, HIGH = 0.1, 100.0
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>Tallykeeper: benchmarks</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 2em; color: #1c1f24; background: #fff; }}
text {{ font: 12px system-ui, sans-serif; fill: #1c1f24; }} text.heading {{ font-weight: 600; font-size: 14px; }}
.good {{ fill: #2b7a4b; }} .bad {{ fill: #b4472e; }} .plain {{ fill: #7b8794; }}
.goal {{ stroke: #1c1f24; stroke-width: 2; }} .grid {{ stroke: #d9dde2; }} .one {{ stroke: #7b8794; }}
</style></head><body>
<h1>Benchmarks</h1>
<p>Bars show how many times better Tallykeeper is than a peer or a ceiling in the same run, on a logarithmic scale.
A black line is the goal; a bar is green where the goal is met, red where it is not, grey without a goal.
All figures are in <a href="README.md">README.md</a>.</p>
{svg}
</body></html>
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A ratio; `goal` is its lower bound."""

    label: str
    ratio: float
    goal: float | None = None

    @property
    def kind(self) -> str:
        if self.goal is None:
            return "plain"
        return "good" if self.ratio >= self.goal else "bad"


def bars(measurement: Measurement) -> Iterator[Bar]:
    """Return a bar for each other party by value, and by CPU where that has a goal."""
    goals = {(goal.against, goal.by): goal.bound for goal in measurement.goals}
    for party in measurement.others:
        label = f"{measurement.name}: {party.name}"
        yield Bar(label, measurement.ratio(party), goals.get((party.name, "value")))
        by_cpu = measurement.cpu_ratio(party)
        if by_cpu is not None and (party.name, "cpu") in goals:
            yield Bar(f"{label}, by CPU", by_cpu, goals[party.name, "cpu"])


def page(results: Results) -> str:
    return PAGE.format(svg=_svg(results))


def _svg(results: Results) -> str:
    parts: list[str] = []
    y = 0
    for section in results.sections:
        drawn = [bar for measurement in section.measurements for bar in bars(measurement)]
        if not drawn:
            continue
        y += HEADING
        parts.append(f'<text class="heading" x="0" y="{y - 10}">{escape(section.title)}</text>')
        for bar in drawn:
            parts += _bar(bar, y)
            y += ROW
    width = LABELS + WIDTH + VALUES
    grid = [
        f'<line class="{"one" if tick == 1 else "grid"}" x1="{_x(tick):.1f}" x2="{_x(tick):.1f}" y1="0" y2="{y}"/>'
        f'<text x="{_x(tick):.1f}" y="{y + 16}" text-anchor="middle">{tick:g} ×</text>'
        for tick in (0.1, 0.5, 1, 2, 5, 10, 50, 100)
    ]
    label = "Ratios of Tallykeeper to peers and ceilings"
    body = "\n".join(grid + parts)
    size = f'width="{width}" height="{y + 24}" viewBox="0 0 {width} {y + 24}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-label="{label}" {size}>\n{body}\n</svg>'


def _bar(bar: Bar, y: int) -> Iterator[str]:
    left, right = sorted((_x(1), _x(bar.ratio)))
    middle = y + ROW / 2 + 4
    yield f'<text x="{LABELS - 8}" y="{middle}" text-anchor="end">{escape(bar.label)}</text>'
    span = f'x="{left:.1f}" width="{max(1.0, right - left):.1f}"'
    yield f'<rect class="{bar.kind}" {span} y="{y + 3}" height="{ROW - 6}"/>'
    yield f'<text x="{LABELS + WIDTH + 8}" y="{middle}">{number(bar.ratio)} ×</text>'
    if bar.goal is not None:
        x = _x(bar.goal)
        yield f'<line class="goal" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + ROW - 1}"/>'


def _x(ratio: float) -> float:
    """Return the place of a ratio on the logarithmic scale, at its ends for ratios beyond them."""
    bounded = min(max(ratio, LOW), HIGH)
    return LABELS + WIDTH * math.log(bounded / LOW) / math.log(HIGH / LOW)
