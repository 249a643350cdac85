"""Settings of the brokers, and of clients beside them."""

from __future__ import annotations

from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import read_brokers


async def test_the_brokers_settings_are_read(settings: KafkaSettings) -> None:
    found = await read_brokers(settings)
    assert found.number == 1
    assert found.session_ms is not None
    assert found.session_ms >= 1_000
    assert found.shortest_deadline_ms == 0


async def test_the_rack_is_that_of_the_settings() -> None:
    for rack, known in (("eu-1a", "eu-1a"), ("", None)):
        consumer = LogReader(KafkaSettings(kafka_client_rack=rack))._new_consumer(1)
        assert consumer._client_rack == known
        await consumer.stop()
