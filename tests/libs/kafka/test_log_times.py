"""The offset of an instant in the log, also after the broker's clock went back, and after a late response."""

from random import Random
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaTimeoutError

from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import open_admin


async def test_an_instant_is_where_the_first_record_of_then_or_later_is(
    settings: KafkaSettings, namespace: str, reader: LogReader
) -> None:
    rng, topic, clock = Random(7), f"{namespace}.times", 1_790_000_000_000
    times = [clock := clock + rng.randint(-40, 60) for _ in range(60)]
    async with open_admin(settings) as admin:
        config = {"message.timestamp.type": "CreateTime"}
        await admin.create_topics([NewTopic(topic, 2, 1, topic_configs=config)])
    async with AIOKafkaProducer(**connection(settings)) as producer:
        for at, time_ms in enumerate(times):
            await producer.send(topic, b"x", partition=0, timestamp_ms=time_ms)
            if at % 3 == 0:
                await producer.flush()
    for wanted in (-1, min(times), *times[::5], max(times), max(times) + 1):
        expected = next((at for at, time_ms in enumerate(times) if time_ms >= wanted), len(times))
        assert await reader.offsets_from(topic, [0, 1], wanted) == {0: expected, 1: 0}, wanted


async def test_a_query_that_one_late_response_ended_is_repeated_on_a_new_connection(
    topic: Topic, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, asked = AIOKafkaConsumer.offsets_for_times, list[AIOKafkaConsumer]()

    async def late_at_first(consumer: AIOKafkaConsumer, times: Any) -> Any:
        asked.append(consumer)
        if len(asked) == 1:
            raise KafkaTimeoutError("Failed to get offsets by times in 5000 ms")
        return await query(consumer, times)

    monkeypatch.setattr(AIOKafkaConsumer, "offsets_for_times", late_at_first)
    assert await reader.offsets_from(topic.name, [0], 0) == {0: 0}
    assert len(set(asked)) == 2
