"""The topics, their settings, and which partition a key belongs to."""

from dataclasses import dataclass
from typing import Final

from aiokafka.partitioner import murmur2

TEST_WORLD: Final = "-test"
"""What the legacy test environment's namespace ends with: its topics and keys are its own."""

REQUIRED_SETTINGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
}
"""Topic settings without which the log would not be the truth; a service refuses to serve on others."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one namespace; `partitions` is fixed for its life."""

    name: str
    partitions: int

    def partition_of(self, key: str) -> int:
        """The partition of `key`: Kafka's own default hash, computed here and sent explicitly."""
        return int(murmur2(key.encode()) & 0x7FFFFFFF) % self.partitions


CATALOGUE_PARTITIONS: Final = 4


def votes_topic(namespace: str, partitions: int) -> Topic:
    return Topic(f"{namespace}.votes", partitions)


def source_log_key(contest: str, source: str) -> str:
    """What the reports and marks of an external source are keyed by in the votes log."""
    return f"{contest}:{source}"


def purchases_topic(namespace: str, partitions: int) -> Topic:
    return Topic(f"{namespace}.purchases", partitions)


def catalogue_topic(namespace: str) -> Topic:
    return Topic(f"{namespace}.catalogue", CATALOGUE_PARTITIONS)


def test_world(namespace: str) -> str:
    """The namespace of the legacy test environment beside `namespace`."""
    return namespace + TEST_WORLD


def topics_of(namespace: str, partitions: int) -> list[Topic]:
    """Every topic of a deployment; the test world has no votes."""
    return [
        votes_topic(namespace, partitions),
        purchases_topic(namespace, partitions),
        catalogue_topic(namespace),
        catalogue_topic(test_world(namespace)),
    ]
