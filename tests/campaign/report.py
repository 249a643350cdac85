"""The table of a campaign: a row for each fault, and one for each pair of faults that was met."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.campaign.oracle import Oracle
from tests.campaign.plan import Episode

TITLES = (
    "fault",
    "times",
    "bit",
    "answers 503 or lost",
    "untrue answers",
    "longest wait, s",
    "named by the status",
    "healed after, s (p50, max)",
)


@dataclass
class Outcome:
    """What an episode showed; times are of the monotonic clock."""

    episode: Episode
    began_at: float
    ended_at: float = 0.0
    healed_at: float = 0.0
    healed_last: str = ""
    """The last reading before all was well."""
    did_not_bite: str = ""
    looked: bool = False
    """True if the status was read while the fault lasted."""
    named: bool = False
    alarms: set[str] = field(default_factory=set)

    @property
    def label(self) -> str:
        return " + ".join(self.episode.faults)

    @property
    def heal_s(self) -> float:
        return self.healed_at - self.ended_at


def table(outcomes: Sequence[Outcome], oracle: Oracle) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    by_label: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        by_label[outcome.label].append(outcome)
    yield _line(TITLES)
    yield _line(["---", *["---:"] * (len(TITLES) - 1)])
    for label, each in sorted(by_label.items()):
        healing = [one.heal_s for one in each]
        bit = sum(not one.did_not_bite for one in each)
        doubts, waits = _doubts(each, oracle), _waits(each, oracle)
        yield _line(
            [
                label,
                len(each),
                bit,
                doubts,
                sum(_is_in(one, at) for one in each for at, _ in oracle.wrong),
                f"{max(waits, default=0.0):.1f}",
                f"{sum(one.named for one in each)} of {sum(one.looked for one in each)}",
                f"{median(healing):.1f}, {max(healing):.1f}",
            ]
        )


def bitten(outcomes: Sequence[Outcome], oracle: Oracle) -> set[str]:
    """Return the faults after whose beginning votes were in doubt or waited for over a second."""
    return {
        fault
        for one in outcomes
        if not one.did_not_bite and (_doubts([one], oracle) or max(_waits([one], oracle), default=0.0) > 1.0)
        for fault in one.episode.faults
    }


def _doubts(each: Sequence[Outcome], oracle: Oracle) -> int:
    return sum(_is_in(one, at) for one in each for at in oracle.doubts)


def _waits(each: Sequence[Outcome], oracle: Oracle) -> list[float]:
    """Return the waits of the voters whose requests were under way during these."""
    return [
        wait.seconds
        for one in each
        for wait in oracle.waits
        if wait.seat >= 0 and wait.since < one.healed_at and wait.since + wait.seconds > one.began_at
    ]


def _is_in(one: Outcome, at: float) -> bool:
    return one.began_at <= at <= one.healed_at


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
