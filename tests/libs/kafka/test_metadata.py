"""A writer asks Kafka for the metadata of its own topics only: those of all take long where there are many."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata

from libs.contracts.topics import Topic, votes_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from tests.support.eventually import eventually

Asked = list[set[str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, namespace: str) -> Asked:
    """The test's topics in each answer that has some, while metadata are old after a moment."""
    answers: Asked = []
    update = ClusterMetadata.update_metadata

    def record(cluster: ClusterMetadata, metadata: Any) -> None:
        if topics := {topic for _, topic, *_ in metadata.topics if topic.startswith(namespace)}:
            answers.append(topics)
        update(cluster, metadata)

    monkeypatch.setattr(ClusterMetadata, "update_metadata", record)
    monkeypatch.setattr("libs.kafka.producers.METADATA_S", 0.05)
    return answers


@asynccontextmanager
async def open_writer(settings: KafkaSettings) -> AsyncIterator[LogWriter]:
    writer = LogWriter(settings)
    await writer.start()
    await eventually(lambda: writer.ready)
    yield writer
    await writer.stop()


async def test_a_health_check_asks_for_no_topic(settings: KafkaSettings, topic: Topic, asked: Asked) -> None:
    async with open_writer(settings) as writer:
        asked.clear()
        await writer.check()
    assert asked == []


async def test_metadata_of_written_topics_are_refreshed_and_no_others(
    settings: KafkaSettings, topic: Topic, namespace: str, asked: Asked
) -> None:
    await create_topics(settings, [votes_topic(f"{namespace}other", 1)])
    async with open_writer(settings), open_writer(settings) as writer:
        asked.clear()
        await writer.append(topic.name, 0, b"record", deadline_s=60)
        await eventually(lambda: len(asked) > 5)
    assert set().union(*asked) == {topic.name}
