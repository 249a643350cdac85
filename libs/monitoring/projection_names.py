"""Names of a deployment's projections in commands and pages."""

from enum import StrEnum

from libs.contracts.topics import catalogue_topic, legacy_test_namespace, purchases_topic, votes_topic
from libs.views.client import Valkey
from libs.views.generations import Generations


class Fold(StrEnum):
    """A topic and its views: a projection that can be rebuilt."""

    VOTES = "votes"
    PURCHASES = "purchases"
    CATALOGUE = "catalogue"
    TEST = "test"
    """The catalogue of the legacy test environment."""


def folds_of(valkey: Valkey, namespace: str, partitions: int) -> dict[Fold, Generations]:
    """Return each fold's views, with their topic."""
    test = legacy_test_namespace(namespace)
    return {
        Fold.VOTES: Generations(valkey, namespace, "votes", votes_topic(namespace, partitions)),
        Fold.PURCHASES: Generations(valkey, namespace, "purchases", purchases_topic(namespace, partitions)),
        Fold.CATALOGUE: Generations(valkey, namespace, "catalogue", catalogue_topic(namespace)),
        Fold.TEST: Generations(valkey, test, "catalogue", catalogue_topic(test)),
    }
