"""The health checks of a running consumer, and their load on Kafka."""

from collections.abc import Collection

import pytest

from libs.contracts.log_records import Position
from libs.contracts.topics import Topic, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.projection import consumer_health
from libs.projection.consumer_health import ConsumerHealth
from libs.projection.log_identity import LogIdentities
from libs.projection.partition_worker import PartitionWorker
from libs.projection.settings import ProjectorSettings
from libs.tally.errors import LogUnavailable
from tests.libs.projection.in_memory_projection import MemoryProjection, Steering, Views

PARTITIONS = 8


class CountingReader(LogReader):
    """Counts how often first records are read."""

    def __init__(self, settings: KafkaSettings) -> None:
        super().__init__(settings)
        self.asked: list[int] = []

    async def log_ids(self, topic: str, partitions: Collection[int]) -> dict[int, str]:
        self.asked.append(len(partitions))
        return await super().log_ids(topic, partitions)


def standing(topic: Topic, partition: int, position: Position) -> PartitionWorker:
    async def place(_: int) -> Position:
        return position

    fold = PartitionWorker(MemoryProjection(topic, Views()), partition, Steering(), place, lambda: None)
    fold.position = position
    return fold


async def test_the_logs_identity_is_asked_for_once_for_all_partitions(
    kafka: str, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer_health, "IDENTITY_S", 0)
    settings, topic = KafkaSettings(kafka_bootstrap_servers=kafka), votes_topic(namespace, PARTITIONS)
    await create_topics(settings, [topic])
    async with CountingReader(settings) as reader:
        ids = await reader.log_ids(topic.name, range(PARTITIONS))
        reader.asked.clear()
        folds = {partition: standing(topic, partition, Position(log_id, 1)) for partition, log_id in ids.items()}
        origins, projection = LogIdentities(reader, topic), MemoryProjection(topic, Views())
        health = ConsumerHealth(topic, reader, origins, projection, ProjectorSettings())
        await health.check(None, folds)
        assert reader.asked == [PARTITIONS]
        health.unassigned_since = 0.0
        with pytest.raises(LogUnavailable, match=r"assigned no partitions for \d+ s$"):
            await health.check(None, folds)
