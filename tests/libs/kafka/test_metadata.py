"""A writer asks Kafka for the metadata of its own topics only: those of all take long where there are many."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from aiokafka.cluster import ClusterMetadata

from libs.contracts.topics import Topic, votes_topic
from libs.kafka.partition_queues import Record
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from tests.support.clients.log_writers import open_writer
from tests.support.eventually import eventually
from tests.support.servers.proxy import proxy

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


async def test_metadata_are_refreshed_while_a_batch_is_not_acknowledged(
    settings: KafkaSettings, topic: Topic, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("libs.kafka.producers.METADATA_S", 1000)
    monkeypatch.setattr("libs.kafka.producers.HANGING_S", 0.05)
    monkeypatch.setattr("libs.kafka.writer.HANGING_S", 0.05)
    async with open_writer(settings) as writer:
        await writer.append(topic.name, 0, b"record", deadline_s=60)
        asked.clear()

        async def hang(*_: Any, **__: Any) -> asyncio.Future[Any]:
            return asyncio.get_running_loop().create_future()

        monkeypatch.setattr("aiokafka.AIOKafkaProducer.send_batch", hang)
        writer.append_group(topic.name, 0, [Record(b"record")])
        await eventually(lambda: len(asked) > 5)


async def test_a_producer_starts_beside_one_that_asks_a_broker_which_does_not_answer(
    settings: KafkaSettings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("libs.kafka.producers.BESIDE_S", 0.1)
    monkeypatch.setattr("aiokafka.conn.random.shuffle", in_order_once())
    credentials, at, alive = settings.kafka_bootstrap_servers.rpartition("@")
    async with proxy(alive) as silent:
        silent.freeze()
        addresses = f"{credentials}{at}{silent.address},{alive}"
        async with open_writer(settings.model_copy(update={"kafka_bootstrap_servers": addresses})) as writer:
            assert writer.ready
    assert "Kafka does not answer" not in caplog.text


def in_order_once() -> Callable[[list[Any]], None]:
    """Return a function in place of `random.shuffle`, which reverses the lists of all tasks but the first."""
    first: list[Any] = []

    def shuffle(items: list[Any]) -> None:
        first.append(asyncio.current_task())
        if first[-1] is not first[0]:
            items.reverse()

    return shuffle
