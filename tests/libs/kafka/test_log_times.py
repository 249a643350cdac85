"""The offset of an instant in the log, also after the broker's clock went back."""

from random import Random

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings


async def test_an_instant_is_where_the_first_record_of_then_or_later_is(kafka: str, namespace: str) -> None:
    rng, topic, clock = Random(7), f"{namespace}.times", 1_790_000_000_000
    times = [clock := clock + rng.randint(-40, 60) for _ in range(60)]
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka)
    await admin.start()
    config = {"message.timestamp.type": "CreateTime"}
    await admin.create_topics([NewTopic(topic, 2, 1, topic_configs=config)])
    await admin.close()
    producer = AIOKafkaProducer(bootstrap_servers=kafka)
    await producer.start()
    for at, time_ms in enumerate(times):
        await producer.send(topic, b"x", partition=0, timestamp_ms=time_ms)
        if at % 3 == 0:
            await producer.flush()
    await producer.stop()
    async with LogReader(KafkaSettings(kafka_bootstrap_servers=kafka)) as reader:
        for wanted in (-1, min(times), *times[::5], max(times), max(times) + 1):
            expected = next((at for at, time_ms in enumerate(times) if time_ms >= wanted), len(times))
            assert await reader.offsets_from(topic, [0, 1], wanted) == {0: expected, 1: 0}, wanted
