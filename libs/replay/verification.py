"""Verifies a generation, and compares it with the one that readers see."""

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from libs.audit.comparison import compare_in_parallel
from libs.audit.report import VerificationReport
from libs.deployment.deployment import Deployment
from libs.replay.swap import NotReached
from libs.replay.targets import NOT_COMPARED, ReplayTarget
from libs.tally.counts import VoteSums
from libs.views.generations.generations import Generations, Moving, ProjectionName
from libs.views.votes.vote_views import VoteViews

ATTEMPTS: Final = 500
AGAIN_S: Final = 0.02
MOST_KEPT: Final = 1_000


@dataclass(frozen=True, slots=True)
class Change:
    """Counts of a participant ("": the contest) in the live and in the new generation."""

    contest: str
    participant: str
    before: VoteSums
    after: VoteSums


@dataclass(frozen=True, slots=True)
class GenerationDifference:
    """A field of a key whose values differ between the live and the new generation."""

    partition: int
    key: str
    field: str


@dataclass(slots=True)
class VerificationResult:
    """Result of a verification.

    For votes: `report` compares the generation with an independent fold of the log, `changes` with the live
    generation, and `differences` lists the partitions folded with other fences. For other projections
    `differences` lists those from the live generation. `titles` is for those of the contests and participants
    that change or differ, by key. `compared_with_live` is False if the live one has another
    layout and cannot be compared.
    """

    report: VerificationReport | None = None
    changes: list[Change] = field(default_factory=list)
    titles: Mapping[str, str] = field(default_factory=dict)
    differences: list[GenerationDifference] = field(default_factory=list)
    compared_with_live: bool = True

    @property
    def contests(self) -> set[str]:
        """Return the contests that change or differ."""
        differing = () if self.report is None else self.report.differences
        return {one.contest for one in (*self.changes, *differing)}

    @property
    def equal(self) -> bool:
        return not self.differences if self.report is None else self.report.equal

    def allows_swap(self, *, accept: bool) -> bool:
        """Return whether to swap: votes must equal the log; differences from the live view may be accepted."""
        return (self.report is None or self.report.equal) and (accept or not self.differences)


async def verify_generation(
    deployment: Deployment, target: ReplayTarget, number: int, partitions: Collection[int]
) -> VerificationResult:
    """Compare generation `number` with an independent fold of the log (votes) or with the live generation.

    Raises `LogUnavailable`, `LogChanged` and `ViewsUnavailable`, also if the two do not come to one position.
    """
    generations = deployment.projections[target.projection]
    found = await generations.read_all()
    legible = [partition for partition in partitions if found[partition].live.schema == found[partition].schema]
    result = VerificationResult(compared_with_live=len(legible) == len(partitions))
    if target.projection is ProjectionName.VOTES:
        result.report = await compare_in_parallel(deployment, generation=number, partitions=partitions)
        result.changes = await changes(deployment, number, legible)
        for partition in legible:
            result.differences += await _differing_key(generations, partition, number, "fences")
    else:
        numbers = {number, *(found[partition].live.number for partition in legible)}
        names = await generations.names(numbers)
        held = {partition: names.get(partition, ()) for partition in legible}
        result.differences = await _differing(generations, number, held)
    return result


async def changes(deployment: Deployment, number: int, partitions: Collection[int]) -> list[Change]:
    """Return the counts that would change for readers, summed over partitions, both at the same position."""
    place = deployment.valkey, deployment.namespace, deployment.votes
    live, other = deployment.vote_views, VoteViews(*place, generation=number)
    found = [await views.contests() for views in (live, other)]
    contests = {name for held in found for partition in partitions for name in held.get(partition, ())}
    return [change for contest in sorted(contests) for change in await _changes(live, other, contest, partitions)]


async def _changes(live: VoteViews, other: VoteViews, contest: str, partitions: Collection[int]) -> list[Change]:
    sums: dict[str, list[VoteSums]] = {}
    for partition in partitions:
        for _ in range(ATTEMPTS):
            parts = await asyncio.gather(live.counts(partition, contest), other.counts(partition, contest))
            if parts[0] is not None and parts[1] is not None and parts[0].position == parts[1].position:
                break
            await asyncio.sleep(AGAIN_S)
        else:
            raise NotReached.of(f"votes/{partition}")
        for side, part in enumerate(parts):
            assert part is not None, "asked for unconditionally"
            for (participant, source), figures in part.figures.items():
                if not source:
                    both = sums.setdefault(participant, [VoteSums(), VoteSums()])
                    both[side] = both[side] + figures
    return [
        Change(contest, participant, *both) for participant, both in sorted(sums.items()) if both[0] != both[1]
    ]


async def _differing(
    generations: Generations, number: int, names: Mapping[int, Collection[str]]
) -> list[GenerationDifference]:
    """Compare the keys `names` (those in either generation, by partition)."""
    found: list[GenerationDifference] = []
    for partition, held in names.items():
        for name in sorted(held):
            if generations.prefix != "catalogue" or name.partition(":")[0] not in NOT_COMPARED:
                found += await _differing_key(generations, partition, number, name)
    return found[:MOST_KEPT]


async def _differing_key(
    generations: Generations, partition: int, number: int, name: str
) -> list[GenerationDifference]:
    for _ in range(ATTEMPTS):
        try:
            found = [one async for one in generations.differences(partition, number, [name])]
            return [GenerationDifference(one.partition, one.key, one.field) for one in found]
        except Moving:
            await asyncio.sleep(AGAIN_S)
    raise NotReached.of(f"{generations.topic.name}/{partition}")
