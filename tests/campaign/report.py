"""The table of a campaign: a row for each fault, alone and in pairs."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

from tests.campaign.oracle import Oracle, Wait
from tests.campaign.plan import Episode

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
    rows = [_row(fault, each, oracle) for fault, each in sorted(by_fault.items())]
    if rows:
        yield _line(rows[0])
        yield _line(["---", *["---:"] * (len(rows[0]) - 1)])
    yield from (_line(row.values()) for row in rows)


def _row(fault: str, each: Sequence[Outcome], oracle: Oracle) -> dict[str, object]:
    healing = [one.heal_s for one in each if one.healed_at < NONE_YET]
    others = max(_longest(_of_other_shards(one, oracle)) for one in each)
    return {
        "fault": fault,
        "times": len(each),
        "bit": sum(fault not in one.did_not_bite for one in each),
        "503 or lost": _doubts(each, oracle),
        "untrue": sum(_is_in(one, at) for one in each for at, _ in oracle.wrong),
        "longest wait, s": f"{max(_longest(_waits(one, oracle)) for one in each):.1f}",
        "of other shards": f"{others:.1f}" if others else "-",
        "named": f"{sum(one.named for one in each)} of {sum(one.looked for one in each)}",
        "missed": sum(one.is_missed for one in each),
        "false": sum(len(one.false) for one in each),
        "healed after, s (p50, max)": f"{median(healing):.1f}, {max(healing):.1f}" if healing else "-",
    }


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
        if _doubts([one], oracle) or _longest(_waits(one, oracle)) > LONG_WAIT_S
        for fault in one.episode.faults
        if fault not in one.did_not_bite
    }


def _doubts(each: Sequence[Outcome], oracle: Oracle) -> int:
    return sum(_is_in(one, at) for one in each for at in oracle.doubts)


def _waits(one: Outcome, oracle: Oracle) -> Iterator[Wait]:
    """Yield the waits of the voters whose requests were under way meanwhile."""
    for wait in oracle.waits:
        if wait.seat >= 0 and wait.since < one.healed_at and wait.since + wait.seconds > one.began_at:
            yield wait


def _longest(waits: Iterable[Wait]) -> float:
    return max((wait.seconds for wait in waits), default=0.0)


def _of_other_shards(one: Outcome, oracle: Oracle) -> Iterator[Wait]:
    """Yield the waits of voters whose partitions lie in shards that were not hit, where others were."""
    for wait in _waits(one, oracle) if one.hit_partitions else ():
        if wait.vote is not None:
            partition = oracle.partitions.get((wait.vote.contest, wait.vote.voter), -1)
            if partition not in {-1, *one.hit_partitions}:
                yield wait


def _is_in(one: Outcome, at: float) -> bool:
    return one.began_at <= at <= one.healed_at


def _line(cells: Iterable[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
