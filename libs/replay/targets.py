"""Projections that can be rebuilt, in all partitions or some, and the numbers of their generations."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Final

from libs.contracts.catalogue_events import catalogue_codec
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.kafka.reader import Extent
from libs.projection.projection_interface import Projection
from libs.projection.record_projections import (
    CatalogueProjection,
    ConfigVersions,
    PurchasesProjection,
    catalogue_slices,
    no_votes,
    versions_of,
)
from libs.projection.votes_projection import VotesProjection
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.generations.generations import PartitionGenerations, ProjectionName, State
from libs.views.purchases.purchase_views import PurchaseViews
from libs.views.votes.vote_views import VoteViews


async def nothing(deployment: Deployment, partition: int, passed: Extent) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class ProjectionRow:
    """One projection: `into` creates the one that folds into a generation.

    `not_compared` are keys outside of the fold: due items return with it, outcomes of commands expire lazily.
    `before_overtaking` does what a projector does before a fold, for records of a partition that only the new
    generation has folded when it is swapped in.
    """

    into: Callable[[Deployment, int], Projection]
    not_compared: tuple[str, ...] = ()
    before_overtaking: Callable[[Deployment, int, Extent], Awaitable[None]] = nothing


def _votes(deployment: Deployment, number: int) -> Projection:
    return VotesProjection(
        deployment.votes,
        VoteViews(deployment.valkey, deployment.namespace, deployment.votes, generation=number),
        None,
    )


def _purchases(deployment: Deployment, number: int) -> Projection:
    topic = deployment.purchases
    return PurchasesProjection(topic, PurchaseViews(deployment.valkey, deployment.namespace, topic, number))


async def _raise_config(deployment: Deployment, partition: int, passed: Extent) -> None:
    """Put the configurations of records into force: no projector will fold these records after the swap."""
    await deployment.find_topics()

    async def partitions() -> Iterable[int]:
        return deployment.votes.numbers

    raise_config, reader = ConfigVersions(deployment.vote_views, partitions), deployment.reader
    async with aclosing(reader.records(deployment.catalogue.topic.name, {partition: passed})) as batches:
        async for _, records in batches:
            events = catalogue_codec.decode_many([record.value for record in records])
            for entries in catalogue_slices(list(zip(records, events, strict=True))):
                if versions := versions_of(entries):
                    await raise_config(versions)


def _catalogue(environment: Environment) -> ProjectionRow:
    """Build the row; the fold raises no configurations: those up to the live view's position are in force."""

    def into(deployment: Deployment, number: int) -> Projection:
        views = CatalogueViews(deployment.valkey, environment.namespace(deployment.namespace), number)
        return CatalogueProjection(deployment.catalogue_of(environment).topic, views, no_votes)

    not_compared = "due", "outcomes", "outcome_times"
    before_overtaking = _raise_config if environment is Environment.PRODUCTION else nothing
    return ProjectionRow(into, not_compared, before_overtaking)


PROJECTIONS: Final = {
    ProjectionName.CATALOGUE: _catalogue(Environment.PRODUCTION),
    ProjectionName.TEST: _catalogue(Environment.TEST),
    ProjectionName.VOTES: ProjectionRow(_votes),
    ProjectionName.PURCHASES: ProjectionRow(_purchases),
}
"""Projections in the order in which they are rebuilt."""


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A projection, in some partitions or all (None)."""

    projection: ProjectionName
    partitions: Collection[int] | None = None

    @property
    def row(self) -> ProjectionRow:
        return PROJECTIONS[self.projection]

    def of(self, all_partitions: Iterable[int]) -> list[int]:
        return list(all_partitions) if self.partitions is None else sorted(self.partitions)


def unfinished(generations: Iterable[PartitionGenerations]) -> int | None:
    """Return the latest unfinished generation, or None."""
    others = [one for partition in generations for one in partition.others.values()]
    broken = {one.number for one in others if one.state is State.BROKEN}
    begun = {one.number for one in others if one.state in (State.BUILDING, State.FOLLOWING)}
    return max(begun - broken, default=None)


def next_number(generations: Mapping[int, PartitionGenerations]) -> int:
    """Return a number that was never used."""
    return 1 + max(max(partition.last, partition.live.number) for partition in generations.values())


def former(partition: PartitionGenerations) -> int | None:
    """Return the former generation, if it is still folded."""
    return max((one.number for one in partition.others.values() if one.state is State.KEPT), default=None)


def latest_swapped_in(generations: Iterable[PartitionGenerations]) -> int | None:
    """Return the generation swapped in last, if it can be rolled back anywhere.

    After an interrupted swap or rollback this is the one to resume.
    """
    live = (one.live.number for one in generations if (former(one) or one.live.number) < one.live.number)
    return max(live, default=None)
