"""A topic of its own on the real Kafka for each test."""

from collections.abc import AsyncIterator

import pytest

from libs.contracts.topics import Topic, votes_topic
from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from tests.support.servers.topics import new_topics


@pytest.fixture
def settings(kafka: str) -> KafkaSettings:
    return KafkaSettings(kafka_bootstrap_servers=kafka, kafka_request_timeout_ms=2_000)


@pytest.fixture
async def topic(settings: KafkaSettings, namespace: str) -> Topic:
    topic = votes_topic(namespace, 4)
    await new_topics(settings, [topic])
    return topic


@pytest.fixture
async def reader(settings: KafkaSettings) -> AsyncIterator[LogReader]:
    async with LogReader(settings) as reader:
        yield reader
