"""Model of a measurement: the same work by Tallykeeper, by peers and by a ceiling in one run, and its goals."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeVar

OURS = "Tallykeeper"
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Run:
    """Figures of one round of one party.

    `cpu_us` is the CPU time by process, in microseconds per unit of work; `also` are further figures of the round,
    named with their units.
    """

    value: float
    cpu_us: Mapping[str, float] = field(default_factory=dict)
    also: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Party:
    """One of those that are compared; `note` names the parts of the work that it does not do."""

    name: str
    runs: Sequence[Run]
    note: str = ""

    @property
    def value(self) -> float:
        return median([run.value for run in self.runs])

    @property
    def cpu_us(self) -> dict[str, float]:
        """CPU time by process, in microseconds per unit of work."""
        return _medians([run.cpu_us for run in self.runs])

    @property
    def also(self) -> dict[str, float]:
        return _medians([run.also for run in self.runs])


@dataclass(frozen=True, slots=True)
class Missing:
    """A peer that could not be measured here, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Goal:
    """A bound of the ratio to the party `against`, by value or by CPU time, or of the value itself without one."""

    bound: float
    against: str = ""
    by: Literal["value", "cpu"] = "value"


@dataclass(frozen=True, slots=True)
class Verdict:
    """A goal, the figure that it bounds, and whether that is within the bound."""

    goal: Goal
    figure: float
    is_met: bool


@dataclass(frozen=True, slots=True)
class Measurement:
    """One figure of Tallykeeper beside the same figure of others, measured in turns within one run.

    A ratio is above 1 where Tallykeeper is better: ours over theirs, or theirs over ours where lower is better.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    ours: Party
    peers: Sequence[Party] = ()
    ceiling: Party | None = None
    goals: Sequence[Goal] = ()
    missing: Sequence[Missing] = ()

    @property
    def others(self) -> list[Party]:
        return [*self.peers, *([self.ceiling] if self.ceiling else [])]

    def ratio(self, other: Party) -> float:
        """Return the median of the rounds' ratios, or the ratio of the medians if the rounds are not pairs."""
        if len(other.runs) != len(self.ours.runs):
            return self._better_by(self.ours.value, other.value)
        pairs = zip(self.ours.runs, other.runs, strict=True)
        return median([self._better_by(our.value, their.value) for our, their in pairs])

    def cpu_ratio(self, other: Party) -> float | None:
        """Return the other's CPU time per unit of work over ours, of all processes; None if it was not weighed."""
        ours, theirs = sum(self.ours.cpu_us.values()), sum(other.cpu_us.values())
        return theirs / ours if ours and theirs else None

    def verdicts(self) -> list[Verdict]:
        """Return the verdicts of all goals whose party was measured."""
        parties = {party.name: party for party in self.others}
        found = []
        for goal in self.goals:
            if goal.against in parties:
                party = parties[goal.against]
                ratio = self.ratio(party) if goal.by == "value" else self.cpu_ratio(party)
                if ratio is not None:
                    found.append(Verdict(goal, ratio, ratio >= goal.bound))
            elif not goal.against:
                value = self.ours.value
                is_met = value >= goal.bound if self.better == "higher" else value <= goal.bound
                found.append(Verdict(goal, value, is_met))
        return found

    def _better_by(self, ours: float, theirs: float) -> float:
        above, below = (ours, theirs) if self.better == "higher" else (theirs, ours)
        return above / below if below else float("inf")


class Size(StrEnum):
    """Amount of work: `quick` tries the benchmarks out, `full` is the table's."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class Scale:
    """Size of a run; `rounds` are taken in turns by all parties."""

    size: Size = Size.FULL
    rounds: int = 3

    @classmethod
    def of(cls, size: Size, rounds: int | None = None) -> "Scale":
        return cls(size, rounds or (1 if size is Size.QUICK else 3))

    def pick(self, quick: T, full: T) -> T:
        return quick if self.size is Size.QUICK else full


def median(numbers: Sequence[float]) -> float:
    return statistics.median(numbers)


def _medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for each in rounds for name in each)
    return {name: median([each.get(name, 0.0) for each in rounds]) for name in names}
