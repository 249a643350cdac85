"""The logs of a namespace, and what they are called in an export."""

from typing import Any, Final

from libs.contracts.catalogue import catalogue_codec
from libs.contracts.codec import Codec, vote_codec
from libs.contracts.purchases import purchases_codec
from libs.contracts.topics import Topic, catalogue_topic, purchases_topic, test_world, votes_topic

CODECS: Final[dict[str, Codec[Any]]] = {
    "purchases": purchases_codec,
    "votes": vote_codec,
    "catalogue": catalogue_codec,
    "test-catalogue": catalogue_codec,
}


def topics_by_kind(namespace: str, partitions: int) -> dict[str, Topic]:
    """In the order in which their ends are to be fixed: nothing exported may rest on what came too late for it.

    A purchase that says its votes are cast needs them, and a vote the catalogue that it was judged by. (A vote
    whose purchase is missing does no harm: recorded again, it finds its vote by the id.)
    """
    return {
        "purchases": purchases_topic(namespace, partitions),
        "votes": votes_topic(namespace, partitions),
        "catalogue": catalogue_topic(namespace),
        "test-catalogue": catalogue_topic(test_world(namespace)),
    }
