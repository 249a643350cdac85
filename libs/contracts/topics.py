"""Kafka topics, their required settings, and the partitioning of keys.

The votes begin with one topic, and each growth adds one. Their partitions are numbered consecutively. The first
topic, `<namespace>.votes`, has the partitions from 0. A later one is named after its first partition: after 16
partitions `<namespace>.votes.16` follows. So Kafka's list of topics describes the whole log, and a partition keeps
its number for life. Only the clients of Kafka map the numbers to a topic and its own ones.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol
from zlib import crc32

from libs.tally.errors import ViewsUnavailable

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


class VotesLog:
    """The topics of one namespace found by this process. All its parts share the object, which `add` extends."""

    def __init__(self, namespace: str, partitions: int) -> None:
        """Begin with the first topic, which has `partitions`."""
        begun = votes_topic(namespace, partitions)
        self.namespace: Final = namespace
        self.begun_with: Final = partitions
        """The number of partitions of the first topic, and of the purchases."""
        self.name: Final = begun.name
        """The log's name: that of its first topic."""
        self._topics = {begun.first: begun}
        self._of_partition = dict.fromkeys(begun.numbers, begun)

    @property
    def topics(self) -> list[Topic]:
        """Return the topics in the order of their partitions."""
        return sorted(self._topics.values(), key=lambda topic: topic.first)

    @property
    def later(self) -> list[Topic]:
        """Return the topics that the log grew by."""
        return [topic for topic in self.topics if topic.first]

    @property
    def numbers(self) -> list[int]:
        """Return the numbers of all partitions, ascending."""
        return sorted(self._of_partition)

    @property
    def partitions(self) -> int:
        """Return the number of partitions."""
        return len(self._of_partition)

    @property
    def end(self) -> int:
        """Return the number that the first partition of the next topic gets."""
        return self.topics[-1].numbers.stop

    def topic_from(self, first: int) -> Topic:
        """Return the topic whose first partition is `first`. Raises `ViewsUnavailable` while it is not known."""
        topic = self._topics.get(first)
        if topic is None:
            raise ViewsUnavailable(
                "The service is starting; retry shortly.",
                retry_after_s=1,
                cause=f"the topic {self.name_from(first)} is not known yet",
            )
        return topic

    def topic_at(self, partition: int) -> Topic:
        """Return the topic of a partition. Raises KeyError for an unknown one."""
        return self._of_partition[partition]

    def place(self, log: str, partition: int) -> Place:
        """Implement `Placement`; other logs have one topic."""
        if log != self.name:
            return Place(log, partition)
        topic = self.topic_at(partition)
        return Place(topic.name, partition - topic.first)

    def name_from(self, first: int) -> str:
        """Return the name of the topic whose first partition is `first`."""
        return f"{self.name}.{first}" if first else self.name

    def first_in(self, name: str) -> int | None:
        """Return the first partition of a later topic of this log by its name; None for any other topic."""
        number = name.removeprefix(f"{self.name}.")
        is_later = number != name and number.isascii() and number.isdecimal() and number == str(int(number))
        return int(number) if is_later and int(number) > 0 else None

    def next_topic(self, partitions: int) -> Topic:
        """Return the topic that a growth by a topic of `partitions` creates."""
        return Topic(self.name_from(self.end), partitions, self.end)

    def add(self, topics: Iterable[Topic]) -> None:
        """Add complete topics."""
        for topic in topics:
            self._topics[topic.first] = topic
            self._of_partition |= dict.fromkeys(topic.numbers, topic)


def votes_log(namespace: str, partitions: int | VotesLog) -> VotesLog:
    """Return the log itself, or one that has a single topic of `partitions`."""
    return partitions if isinstance(partitions, VotesLog) else VotesLog(namespace, partitions)
