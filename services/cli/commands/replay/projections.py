"""Table of the projections that can be rebuilt."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from libs.contracts.topics import Log, Topic
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.projection.catalogue_projection import CatalogueProjection, no_votes
from libs.projection.projection_interface import Projection
from libs.projection.purchases_projection import PurchasesProjection
from libs.projection.votes_projection import VotesProjection
from libs.views.catalogue_views import CatalogueViews
from libs.views.generations import TIMELINE, Generations
from libs.views.hash_tags import Prefix
from libs.views.purchase_views import PurchaseViews
from libs.views.vote_views import VoteViews


class Rebuildable(StrEnum):
    """Names of the projections in commands."""

    VOTES = "votes"
    PURCHASES = "purchases"
    CATALOGUE = "catalogue"
    TEST = "test"
    TIMELINE = "timeline"


@dataclass(frozen=True, slots=True)
class ProjectionRow:
    """One projection: the prefix of its views, its topic, and a factory for folding into a generation.

    `scope` names the part of the views that such a generation replaces. `not_compared` are keys outside of the
    fold: due items return with it, outcomes of commands expire lazily.
    """

    prefix: Prefix
    topic: Callable[[Deployment], Log]
    into: Callable[[Deployment, int], Projection]
    environment: Environment = Environment.PRODUCTION
    scope: str = ""
    not_compared: tuple[str, ...] = ()

    def generations(self, deployment: Deployment) -> Generations:
        namespace = self.environment.namespace(deployment.namespace)
        return Generations(deployment.valkey, namespace, self.prefix, self.topic(deployment))


def _votes(deployment: Deployment, number: int) -> Projection:
    return VotesProjection(
        deployment.votes,
        VoteViews(deployment.valkey, deployment.namespace, deployment.votes, generation=number),
        None,
    )


def _purchases(deployment: Deployment, number: int) -> Projection:
    topic = deployment.purchases
    return PurchasesProjection(topic, PurchaseViews(deployment.valkey, deployment.namespace, topic, number))


def _catalogue(environment: Environment) -> ProjectionRow:
    """Build the row; a replay sends no configurations to the votes' fold: these or later ones are in force."""

    def topic(deployment: Deployment) -> Topic:
        return deployment.catalogue_of(environment).topic

    def into(deployment: Deployment, number: int) -> Projection:
        views = CatalogueViews(deployment.valkey, environment.namespace(deployment.namespace), number)
        return CatalogueProjection(topic(deployment), views, no_votes)

    not_compared = "due", "outcomes", "outcome_times"
    return ProjectionRow("catalogue", topic, into, environment, not_compared=not_compared)


def _votes_topic(deployment: Deployment) -> Log:
    return deployment.votes


PROJECTIONS: Final[dict[Rebuildable, ProjectionRow]] = {
    Rebuildable.CATALOGUE: _catalogue(Environment.PRODUCTION),
    Rebuildable.TEST: _catalogue(Environment.TEST),
    Rebuildable.VOTES: ProjectionRow("votes", _votes_topic, _votes),
    Rebuildable.TIMELINE: ProjectionRow("votes", _votes_topic, _votes, scope=TIMELINE),
    Rebuildable.PURCHASES: ProjectionRow("purchases", lambda deployment: deployment.purchases, _purchases),
}
"""Projections in the order in which they are rebuilt."""

ALL: Final = (Rebuildable.CATALOGUE, Rebuildable.TEST, Rebuildable.VOTES, Rebuildable.PURCHASES)
"""Projections rebuilt by default; the votes include their timeline."""
