"""Kafka topics, their required settings, and the partitioning of keys."""

from dataclasses import dataclass
from typing import Final
from zlib import crc32

TEST_SUFFIX: Final = "-test"
"""Suffix of the legacy test environment's namespace, which has its own topics and keys."""

REQUIRED_SETTINGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "message.timestamp.type": "LogAppendTime",
    "unclean.leader.election.enable": "false",
}
"""Topic settings that the log needs as the source of truth; services do not start with others."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one namespace; `partitions` never changes."""

    name: str
    partitions: int

    def partition_of(self, key: str) -> int:
        """Return the partition of `key` by its CRC32, as librdkafka's partitioner `consistent` does."""
        return crc32(key.encode()) % self.partitions


CATALOGUE_PARTITIONS: Final = 4


def votes_topic(namespace: str, partitions: int) -> Topic:
    return Topic(f"{namespace}.votes", partitions)


def source_log_key(contest: str, source: str) -> str:
    """Return the record key of an external source's reports and close markers in the votes log."""
    return f"{contest}:{source}"


def purchases_topic(namespace: str, partitions: int) -> Topic:
    return Topic(f"{namespace}.purchases", partitions)


def catalogue_topic(namespace: str) -> Topic:
    return Topic(f"{namespace}.catalogue", CATALOGUE_PARTITIONS)


def legacy_test_namespace(namespace: str) -> str:
    """Return the namespace of the legacy test environment of `namespace`."""
    return namespace + TEST_SUFFIX


def topics_of(namespace: str, partitions: int) -> list[Topic]:
    """Return every topic of a deployment; the test environment has no votes."""
    return [
        votes_topic(namespace, partitions),
        purchases_topic(namespace, partitions),
        catalogue_topic(namespace),
        catalogue_topic(legacy_test_namespace(namespace)),
    ]
