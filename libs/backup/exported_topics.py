"""Topics of a namespace, and their names and codecs in an export."""

from typing import Any, Final

from libs.contracts.catalogue_events import catalogue_codec
from libs.contracts.codec import Codec, vote_codec
from libs.contracts.purchase_events import purchases_codec
from libs.contracts.topics import Log, catalogue_topic, legacy_test_namespace, purchases_topic
from libs.contracts.votes_log import VotesLog

CODECS: Final[dict[str, Codec[Any]]] = {
    "purchases": purchases_codec,
    "votes": vote_codec,
    "catalogue": catalogue_codec,
    "test-catalogue": catalogue_codec,
}


def logs_by_kind(namespace: str, votes: VotesLog) -> dict[str, Log]:
    """Return the logs in the order in which their end offsets are read, so that exported records are consistent.

    A purchase marked as cast needs its votes, and a vote needs the catalogue that it was checked against. (A vote
    without its purchase does no harm: the purchase, recorded again, finds the vote by its id.)
    """
    return {
        "purchases": purchases_topic(namespace, votes.begun_with),
        "votes": votes,
        "catalogue": catalogue_topic(namespace),
        "test-catalogue": catalogue_topic(legacy_test_namespace(namespace)),
    }
