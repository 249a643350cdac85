"""Measurements as rows of a table, for the terminal and for `README.md`."""

from collections.abc import Mapping
from dataclasses import dataclass

from tests.benchmarks.measurement import Goal, Measurement, Party, Verdict


@dataclass(frozen=True, slots=True)
class Row:
    """One party's figures; the name of the figure is in its first row only."""

    figure: str
    party: str
    value: str
    cpu: str
    ratio: str
    cpu_ratio: str
    goal: str

    @property
    def cells(self) -> tuple[str, ...]:
        return self.figure, self.party, self.value, self.cpu, self.ratio, self.cpu_ratio, self.goal


HEAD = Row("figure", "measured", "value", "CPU per unit, µs", "ratio", "ratio by CPU", "goal")


def rows_of(measurement: Measurement) -> list[Row]:
    """Return a row each for Tallykeeper, the peers, the ceiling and the peers that are missing."""
    verdicts = measurement.verdicts()
    rows = [_row(measurement, measurement.ours, measurement.name, "", verdicts)]
    for party in measurement.others:
        rows.append(_row(measurement, party, "", " (ceiling)" if party is measurement.ceiling else "", verdicts))
    rows += [Row("", missing.name, "not measured", "", "", "", missing.reason) for missing in measurement.missing]
    return rows


def _row(measurement: Measurement, party: Party, figure: str, kind: str, verdicts: list[Verdict]) -> Row:
    is_ours = party is measurement.ours
    against = "" if is_ours else party.name
    goals = "; ".join(verdict_text(measurement, each) for each in verdicts if each.goal.against == against)
    by_cpu = None if is_ours else measurement.cpu_ratio(party)
    return Row(
        figure,
        party.name + kind,
        value_text(measurement, party),
        cpu_text(party.cpu_us),
        "" if is_ours else f"{number(measurement.ratio(party))} ×",
        "" if by_cpu is None else f"{number(by_cpu)} ×",
        goals,
    )


def value_text(measurement: Measurement, party: Party) -> str:
    value = f"{number(party.value)} {measurement.unit}"
    also = [_also(name, its) for name, its in party.also.items() if its]
    return f"{value} ({', '.join(also)})" if also else value


def _also(name: str, value: float) -> str:
    """Return a further figure; its name ends with the unit if it has one."""
    what, _, unit = name.partition(" ")
    return f"{what} {number(value)} {unit}".rstrip()


def verdict_text(measurement: Measurement, verdict: Verdict) -> str:
    return f"{goal_text(measurement, verdict.goal)}: {'met' if verdict.is_met else '**not met**'}"


def goal_text(measurement: Measurement, goal: Goal) -> str:
    if goal.against:
        return f"≥ {goal.bound:g} ×{' by CPU' if goal.by == 'cpu' else ''}"
    return f"{'≥' if measurement.better == 'higher' else '≤'} {goal.bound:,g} {measurement.unit}"


def cpu_text(cpu_us: Mapping[str, float]) -> str:
    if not cpu_us:
        return ""
    parts = ", ".join(f"{name} {number(used)}" for name, used in cpu_us.items())
    return f"{number(sum(cpu_us.values()))}: {parts}" if len(cpu_us) > 1 else parts


def number(value: float) -> str:
    """Return three significant digits, and whole thousands with separators."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
