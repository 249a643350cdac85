"""The votes log: one topic, and a further one for each growth. Their partitions are numbered consecutively.

The first topic, `<namespace>.votes`, has the partitions from 0. A later one is named after its first partition:
after 16 partitions `<namespace>.votes.16` follows. So Kafka's list of topics describes the whole log, and a
partition keeps its number for life. Only the clients of Kafka map the numbers to a topic and its own ones.
"""

from collections.abc import Iterable
from typing import Final

from libs.contracts.topics import Place, Topic, votes_topic
from libs.tally.errors import ViewsUnavailable


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

    def has_topic_from(self, first: int) -> bool:
        """Return whether the topic whose first partition is `first` is known."""
        return first in self._topics

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
