"""Names of a deployment's projections in commands and pages."""

from enum import StrEnum

from libs.contracts.topics import catalogue_topic, legacy_test_namespace, purchases_topic
from libs.contracts.votes_log import VotesLog, votes_log
from libs.views.client import Valkey
from libs.views.generations import Generations


class ProjectionName(StrEnum):
    """A topic and its views: a projection that can be rebuilt."""

    VOTES = "votes"
    PURCHASES = "purchases"
    CATALOGUE = "catalogue"
    TEST = "test"
    """The catalogue of the legacy test environment."""


def projections_of(
    valkey: Valkey, namespace: str, partitions: int | VotesLog
) -> dict[ProjectionName, Generations]:
    """Return each projection's views, with their log; `partitions`: of the votes, or their log."""
    votes = votes_log(namespace, partitions)
    test = legacy_test_namespace(namespace)
    return {
        ProjectionName.VOTES: Generations(valkey, namespace, "votes", votes),
        ProjectionName.PURCHASES: Generations(
            valkey, namespace, "purchases", purchases_topic(namespace, votes.begun_with)
        ),
        ProjectionName.CATALOGUE: Generations(valkey, namespace, "catalogue", catalogue_topic(namespace)),
        ProjectionName.TEST: Generations(valkey, test, "catalogue", catalogue_topic(test)),
    }
