"""The table of a campaign: a row for each fault, alone and in pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.campaign.oracle import Oracle, Wait
from tests.campaign.plan import Episode

TITLES: Final = (
    "fault",
    "times",
    "bit",
    "503 or lost",
    "untrue",
    "longest wait, s",
    "of other shards",
    "named",
    "missed",
    "false",
    "healed after, s (p50, max)",
)
LONG_WAIT_S: Final = 1.0
"""A fault whose voters wait longer is shown to have bitten."""
NONE_YET: Final = float("inf")


@dataclass
class Outcome:
    """What an episode showed; times are of the monotonic clock."""

    episode: Episode
    began_at: float
    ended_at: float = NONE_YET
    healed_at: float = NONE_YET
    lag_gone_at: float = NONE_YET
    """First reading after the end in which no view was behind."""
    healed_last: str = ""
    """The last reading before all was well."""
    did_not_bite: dict[str, str] = field(default_factory=dict)
    """By fault, why it is not known to have happened."""
    hit_partitions: frozenset[int] = frozenset()
    """Partitions of the votes whose shard was hit, if nothing else was."""
    looked: bool = False
    """True if the status was read while the fault lasted."""
    named: bool = False
    must_name: bool = False
    """True if the fault lasted for long enough, and is one that the status can see."""
    alarms: set[str] = field(default_factory=set)
    false: set[str] = field(default_factory=set)
    """Alarms of members that nothing had hit."""

    @property
    def label(self) -> str:
        return " + ".join(self.episode.faults)

    @property
    def heal_s(self) -> float:
        return self.healed_at - self.ended_at

    @property
    def is_missed(self) -> bool:
        return self.must_name and not self.named


def table(outcomes: Sequence[Outcome], oracle: Oracle) -> Iterator[str]:
    """Yield the lines of a table in Markdown; an episode of two faults counts for both."""
    by_fault: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in outcomes:
        for fault in outcome.episode.faults:
            by_fault[fault].append(outcome)
    yield _line(TITLES)
    yield _line(["---", *["---:"] * (len(TITLES) - 1)])
    for fault, each in sorted(by_fault.items()):
        healing = [one.heal_s for one in each if one.healed_at < NONE_YET]
        yield _line(
            [
                fault,
                len(each),
                sum(fault not in one.did_not_bite for one in each),
                _doubts(each, oracle),
                sum(_is_in(one, at) for one in each for at, _ in oracle.wrong),
                f"{max(_waits(each, oracle), default=0.0):.1f}",
                _of_other_shards(each, oracle),
                f"{sum(one.named for one in each)} of {sum(one.looked for one in each)}",
                sum(one.is_missed for one in each),
                sum(len(one.false) for one in each),
                f"{median(healing):.1f}, {max(healing):.1f}" if healing else "-",
            ]
        )


def notes(outcomes: Sequence[Outcome], oracle: Oracle, false: Counter[str]) -> Iterator[str]:
    """Yield what the table does not say: faults that did not bite, alarms that were missed or false, lag."""
    met = {fault for outcome in outcomes for fault in outcome.episode.faults}
    yield f"not shown to have bitten: {', '.join(sorted(met - _bitten(outcomes, oracle))) or 'none'}"
    for one in outcomes:
        yield from (f"{name} did not bite: {one.episode}: {why}" for name, why in one.did_not_bite.items())
    yield from (f"missed: {one.episode}" for one in outcomes if one.is_missed)
    yield from (f"false, {times} times: {text}" for text, times in sorted(false.items()))
    lags = [one.lag_gone_at - one.ended_at for one in outcomes if one.lag_gone_at < NONE_YET]
    if lags:
        yield f"no view was behind {median(lags):.1f} s after the end of a fault (p50), {max(lags):.1f} s at most"


def _bitten(outcomes: Sequence[Outcome], oracle: Oracle) -> set[str]:
    """Return the faults after whose beginning votes were in doubt or waited for long."""
    return {
        fault
        for one in outcomes
        if _doubts([one], oracle) or max(_waits([one], oracle), default=0.0) > LONG_WAIT_S
        for fault in one.episode.faults
        if fault not in one.did_not_bite
    }


def _doubts(each: Sequence[Outcome], oracle: Oracle) -> int:
    return sum(_is_in(one, at) for one in each for at in oracle.doubts)


def _waits(each: Sequence[Outcome], oracle: Oracle) -> list[float]:
    """Return the waits of the voters whose requests were under way during these."""
    return [wait.seconds for one in each for wait in _waits_during(one, oracle)]


def _waits_during(one: Outcome, oracle: Oracle) -> Iterator[Wait]:
    for wait in oracle.waits:
        if wait.seat >= 0 and wait.since < one.healed_at and wait.since + wait.seconds > one.began_at:
            yield wait


def _of_other_shards(each: Sequence[Outcome], oracle: Oracle) -> str:
    """Return the longest wait of voters whose partitions lie in shards that were not hit."""
    found = [
        wait.seconds
        for one in each
        if one.hit_partitions
        for wait in _waits_during(one, oracle)
        if wait.vote is not None
        and oracle.partitions.get((wait.vote.contest, wait.vote.voter), -1) not in {-1, *one.hit_partitions}
    ]
    return f"{max(found):.1f}" if found else "-"


def _is_in(one: Outcome, at: float) -> bool:
    return one.began_at <= at <= one.healed_at


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
