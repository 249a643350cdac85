"""Table of the projections that can be rebuilt."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from libs.contracts.topics import Topic, catalogue_topic, legacy_test_namespace, purchases_topic, votes_topic
from libs.deployment.deployment import Deployment
from libs.projection.catalogue import CatalogueProjection, no_votes
from libs.projection.projection import Projection
from libs.projection.purchases import PurchasesProjection
from libs.projection.votes import VotesProjection
from libs.views.catalogue import CatalogueViews
from libs.views.client import Valkey
from libs.views.generations import TIMELINE, Generations, Prefix
from libs.views.purchases import PurchaseViews
from libs.views.votes import VoteViews


class ProjectionName(StrEnum):
    """Names of the projections in commands."""

    VOTES = "votes"
    PURCHASES = "purchases"
    CATALOGUE = "catalogue"
    TEST = "test"
    TIMELINE = "timeline"


@dataclass(frozen=True, slots=True)
class ProjectionRow:
    """One projection: namespace and prefix of its views, its topic, and a factory for folding into a generation.

    `scope` names the part of the views that such a generation replaces. `not_compared` are keys outside of the
    fold: due items return with it, outcomes of commands expire lazily.
    """

    prefix: Prefix
    namespace: Callable[[Deployment], str]
    topic: Callable[[Deployment], Topic]
    into: Callable[[Valkey, Deployment, int], Projection]
    scope: str = ""
    not_compared: tuple[str, ...] = ()

    def generations(self, valkey: Valkey, stack: Deployment) -> Generations:
        return Generations(valkey, self.namespace(stack), self.prefix, self.topic(stack))


def _production(stack: Deployment) -> str:
    return stack.namespace


def _test(stack: Deployment) -> str:
    return legacy_test_namespace(stack.namespace)


def _votes(valkey: Valkey, stack: Deployment, number: int) -> Projection:
    return VotesProjection(_votes_topic(stack), VoteViews(valkey, stack.namespace, number), None)


def _purchases(valkey: Valkey, stack: Deployment, number: int) -> Projection:
    topic = _purchases_topic(stack)
    return PurchasesProjection(topic, PurchaseViews(valkey, stack.namespace, topic, number))


def _catalogue(of: Callable[[Deployment], str]) -> Callable[[Valkey, Deployment, int], Projection]:
    """Build the factory; a replay sends no configurations to the votes' fold: these or later ones are in force."""

    def into(valkey: Valkey, stack: Deployment, number: int) -> Projection:
        views = CatalogueViews(valkey, of(stack), number)
        return CatalogueProjection(catalogue_topic(of(stack)), views, no_votes)

    return into


def _votes_topic(stack: Deployment) -> Topic:
    return votes_topic(stack.namespace, stack.partitions)


def _purchases_topic(stack: Deployment) -> Topic:
    return purchases_topic(stack.namespace, stack.partitions)


_NO_FOLD: Final = ("due", "outcomes", "outcome_times")

PROJECTIONS: Final[dict[ProjectionName, ProjectionRow]] = {
    ProjectionName.CATALOGUE: ProjectionRow(
        "catalogue",
        _production,
        lambda stack: catalogue_topic(_production(stack)),
        _catalogue(_production),
        not_compared=_NO_FOLD,
    ),
    ProjectionName.TEST: ProjectionRow(
        "catalogue",
        _test,
        lambda stack: catalogue_topic(_test(stack)),
        _catalogue(_test),
        not_compared=_NO_FOLD,
    ),
    ProjectionName.VOTES: ProjectionRow("votes", _production, _votes_topic, _votes),
    ProjectionName.TIMELINE: ProjectionRow("votes", _production, _votes_topic, _votes, scope=TIMELINE),
    ProjectionName.PURCHASES: ProjectionRow("purchases", _production, _purchases_topic, _purchases),
}
"""Projections in the order in which they are rebuilt."""

ALL: Final = (ProjectionName.CATALOGUE, ProjectionName.TEST, ProjectionName.VOTES, ProjectionName.PURCHASES)
"""Projections rebuilt by default; the votes include their timeline."""
