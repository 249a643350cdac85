"""The folds of a deployment, by the names that operators call them."""

from enum import StrEnum

from libs.views.client import Valkey
from libs.views.generations import Generations
from services.operations.connect import Stack
from services.operations.replay.projections import PROJECTIONS, Name


class Fold(StrEnum):
    """A topic and its views; each is a projection that can be rebuilt."""

    VOTES = Name.VOTES.value
    PURCHASES = Name.PURCHASES.value
    CATALOGUE = Name.CATALOGUE.value
    TEST = Name.TEST.value
    """The catalogue of the legacy test world."""


def folds_of(stack: Stack, valkey: Valkey) -> dict[Fold, Generations]:
    """The views of each, with their topic."""
    return {fold: PROJECTIONS[Name(fold)].generations(valkey, stack) for fold in Fold}
