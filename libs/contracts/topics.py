"""Kafka topics, their required settings, and the partitioning of keys."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
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


class Place(NamedTuple):
    """A topic, and the number of a partition within it, as in Kafka."""

    topic: str
    partition: int


Placement = Callable[[str, int], Place]
"""Maps a log and one of its partitions to Kafka's topic and partition."""
in_topic: Final[Placement] = Place
"""The placement of logs that have one topic."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic of one namespace; `partitions` never changes.

    `first` is the number of its first partition; only later topics of the votes do not begin with 0 (`VotesLog`).
    """

    name: str
    partitions: int
    first: int = 0

    @property
    def numbers(self) -> range:
        """Return the numbers of all partitions."""
        return range(self.first, self.first + self.partitions)

    @property
    def topics(self) -> list["Topic"]:
        """Return the topic itself."""
        return [self]

    def topic_at(self, partition: int) -> "Topic":
        """Return the topic itself. Raises KeyError for a partition of another one."""
        if partition not in self.numbers:
            raise KeyError(partition)
        return self

    def place(self, log: str, partition: int) -> Place:
        """Implement `Placement` for this topic alone."""
        return Place(log, partition - self.first)

    def partition_of(self, key: str) -> int:
        """Return the partition of `key` by its CRC32, as librdkafka's partitioner `consistent` does."""
        return self.first + crc32(key.encode()) % self.partitions


class Log(Protocol):
    """A topic, or the topics of the votes (`VotesLog`)."""

    @property
    def name(self) -> str: ...

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        ...

    @property
    def numbers(self) -> Sequence[int]:
        """Return the numbers of all partitions, ascending."""
        ...

    @property
    def topics(self) -> Sequence[Topic]:
        """Return the topics in the order of their partitions."""
        ...

    def topic_at(self, partition: int) -> Topic:
        """Return the topic of a partition. Raises KeyError for an unknown one."""
        ...


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
    """Return the topics that a deployment begins with; the test environment has no votes."""
    return [
        votes_topic(namespace, partitions),
        purchases_topic(namespace, partitions),
        catalogue_topic(namespace),
        catalogue_topic(legacy_test_namespace(namespace)),
    ]
