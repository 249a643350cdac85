"""Ends of the log are those of a broker that led the partition, as other replicas confirm."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.cluster import ClusterMetadata
from aiokafka.errors import KafkaConnectionError

from libs.contracts.topics import Topic
from libs.kafka import reader as log_reader
from libs.kafka.leadership import leaders, unconfirmed
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable
from tests.libs.kafka.test_single_records import written

PARTITION = TopicPartition("votes", 0)
LEADER = 1


def metadata(leader: int, replicas: int) -> SimpleNamespace:
    """Return a broker's answer to a request for metadata."""
    all_of_them = list(range(1, replicas + 1))
    partition = (0, PARTITION.partition, leader, all_of_them, all_of_them)
    brokers = [(number, "localhost", 9092, None) for number in all_of_them]
    topics = [(0, PARTITION.topic, False, [partition])]
    return SimpleNamespace(API_VERSION=1, brokers=brokers, controller_id=LEADER, topics=topics)


class Client:
    """Knows `LEADER` as the leader; the brokers answer whom they know, None: not at all."""

    def __init__(self, known: Mapping[int, int | None]) -> None:
        self.known = known
        self.cluster = ClusterMetadata()
        self.cluster.update_metadata(metadata(LEADER, len(known) + 1))

    async def send(self, broker: int, request: object) -> Any:
        leader = self.known[broker]
        if leader is None:
            raise KafkaConnectionError
        return metadata(leader, len(self.known) + 1)


@pytest.mark.parametrize(
    ("known", "is_confirmed"),
    [
        ({}, True),
        ({2: 1}, True),
        ({2: None}, False),
        ({2: 1, 3: 1}, True),
        ({2: 1, 3: None}, True),
        ({2: 1, 3: 2}, True),  # without both of them the leader that one names can acknowledge nothing yet
        ({2: 2, 3: 2}, False),
        ({2: 2, 3: None}, False),
        ({2: None, 3: None}, False),
        ({2: 1, 3: 1, 4: None, 5: None}, False),
        ({2: 1, 3: 1, 4: 1, 5: None}, True),
    ],
)
async def test_a_leader_is_confirmed_by_so_many_that_no_other_can_have_acknowledged_a_record(
    known: dict[int, int | None], is_confirmed: bool
) -> None:
    client: Any = Client(known)
    asked = leaders(client, [PARTITION])
    assert asked == {PARTITION: LEADER}
    assert await unconfirmed(client, asked) == ([] if is_confirmed else [PARTITION])


async def test_a_partition_without_a_known_leader_is_not_confirmed() -> None:
    client: Any = Client({2: 1, 3: 1})
    assert await unconfirmed(client, {TopicPartition("votes", 7): None}) == [TopicPartition("votes", 7)]


async def test_ends_are_the_same_where_the_leader_is_confirmed_and_none_where_it_is_not(
    settings: KafkaSettings, topic: Topic, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    await written(settings, topic, 9)
    partitions = range(topic.partitions)
    assert await reader.confirmed_ends(topic.name, partitions) == await reader.end_offsets(topic.name, partitions)

    async def doubt(_: object, asked: Mapping[TopicPartition, int | None]) -> list[TopicPartition]:
        return [*asked]

    monkeypatch.setattr(log_reader, "unconfirmed", doubt)
    with pytest.raises(LogUnavailable, match="too few replicas confirm"):
        await reader.confirmed_ends(topic.name, partitions)
