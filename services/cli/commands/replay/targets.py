"""Targets of replays (projections, one contest, some partitions) and the numbers of their generations."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from libs.contracts.dataclass_json import HIDDEN
from libs.views.generations import PartitionGenerations, State
from services.cli.commands.replay.projections import PROJECTIONS, ProjectionRow, Rebuildable
from services.cli.contest_lookup import named


@dataclass(frozen=True, slots=True)
class Target:
    """A projection in some partitions (None: all); `contest` restricts the votes to one contest."""

    name: Rebuildable
    contest: str | None = None
    contest_title: str = ""
    partitions: Collection[int] | None = None

    @property
    def row(self) -> ProjectionRow:
        return PROJECTIONS[self.name]

    @property
    def scope(self) -> str:
        return self.contest or self.row.scope

    @property
    def title(self) -> str:
        return f"{self.name} of {named(self.contest, self.contest_title)}" if self.contest else str(self.name)

    def of(self, all_partitions: Iterable[int]) -> list[int]:
        return list(all_partitions) if self.partitions is None else sorted(self.partitions)


@dataclass(frozen=True, slots=True)
class OfTarget:
    """Base of results for one target: their JSON form names its projection and contest."""

    target: Target = field(metadata=HIDDEN)

    @property
    def projection(self) -> Rebuildable:
        return self.target.name

    @property
    def contest(self) -> str | None:
        return self.target.contest

    @property
    def contest_title(self) -> str:
        return self.target.contest_title


def unfinished(generations: Mapping[int, PartitionGenerations], scope: str) -> int | None:
    """Return the latest unfinished generation of this scope, or None."""
    numbers: set[int] = set()
    broken: set[int] = set()
    for partition in generations.values():
        for one in partition.others.values():
            if one.scope == scope and one.state in (State.BUILDING, State.FOLLOWING):
                numbers.add(one.number)
            elif one.state is State.BROKEN:
                broken.add(one.number)
    return max(numbers - broken, default=None)


def next_number(generations: Mapping[int, PartitionGenerations]) -> int:
    """Return a number that was never used."""
    return 1 + max(max(partition.last, partition.live.number) for partition in generations.values())


def former(partition: PartitionGenerations) -> int | None:
    """Return the former generation, if it is still folded."""
    kept = (one.number for one in partition.others.values() if one.state is State.KEPT and one.scope == "")
    return max(kept, default=None)


def latest_read(generations: Mapping[int, PartitionGenerations], scope: str) -> int | None:
    """Return the generation swapped in last, of those that can be rolled back.

    After an interrupted swap or rollback this is the one to resume.
    """
    if scope:
        read = (
            one.number
            for partition in generations.values()
            for one in partition.others.values()
            if one.scope == scope and one.read
        )
        return max(read, default=None)
    live = (one.live.number for one in generations.values() if (former(one) or one.live.number) < one.live.number)
    return max(live, default=None)
