"""Projections that can be rebuilt, in all partitions or some, and the numbers of their generations."""

from collections.abc import Collection, Iterable, Mapping
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

PROJECTIONS: Final = ProjectionName.CATALOGUE, ProjectionName.TEST, ProjectionName.VOTES, ProjectionName.PURCHASES
"""Projections in the order in which they are rebuilt."""
NOT_COMPARED: Final = "due", "outcomes", "outcome_times", "outcome_ring"
"""Keys of the catalogue outside of the fold: due items return with it, outcomes of commands expire lazily."""


@dataclass(frozen=True, slots=True)
class ReplayTarget:
    """A projection, in some partitions or all (None)."""

    projection: ProjectionName
    partitions: Collection[int] | None = None

    def of(self, all_partitions: Iterable[int]) -> list[int]:
        return list(all_partitions) if self.partitions is None else sorted(self.partitions)

    def into(self, deployment: Deployment, number: int) -> Projection:
        """Return the projection that folds into a generation.

        That of the catalogue raises no configurations: those up to the live view's position are in force.
        """
        valkey, namespace = deployment.valkey, deployment.namespace
        match self.projection:
            case ProjectionName.VOTES:
                views = VoteViews(valkey, namespace, deployment.votes, generation=number)
                return VotesProjection(deployment.votes, views, None)
            case ProjectionName.PURCHASES:
                topic = deployment.purchases
                return PurchasesProjection(topic, PurchaseViews(valkey, namespace, topic, number))
        is_test = self.projection is ProjectionName.TEST
        environment = Environment.TEST if is_test else Environment.PRODUCTION
        records = CatalogueViews(valkey, environment.namespace(namespace), number)
        return CatalogueProjection(deployment.catalogue_of(environment).topic, records, no_votes)

    async def before_overtaking(self, deployment: Deployment, partition: int, passed: Extent) -> None:
        """Put the configurations of records that only the new generation has folded into force.

        No projector will fold these records after the swap.
        """
        if self.projection is not ProjectionName.CATALOGUE:
            return
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


def unfinished(generations: Mapping[int, PartitionGenerations], partitions: Iterable[int]) -> int | None:
    """Return the latest unfinished generation that a replay of `partitions` can resume, or None.

    Where a partition has dropped it, after a rollback or a later replay of that partition alone, it cannot be.
    """
    others = [one for partition in generations.values() for one in partition.others.values()]
    broken = {one.number for one in others if one.state is State.BROKEN}
    begun = {one.number for one in others if one.state in (State.BUILDING, State.FOLLOWING)}
    used = [generations[partition] for partition in partitions]
    gone = {number for number in begun for one in used if one.last >= number and one.get(number) is None}
    return max(begun - broken - gone, default=None)


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
