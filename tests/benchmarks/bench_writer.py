"""Compares LogWriter with a bare aiokafka loop: `python -m tests.benchmarks.bench_writer [bootstrap servers]`.

One process, one broker, 16 partitions, 400-byte values. The writer is called as ingestion calls it: by many
coroutines, each waiting for its own record's answer; the bare loops have no callers to answer.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

import uvloop
from aiokafka import AIOKafkaProducer

from libs.contracts.topics import votes_topic
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from tests.benchmarks.stack import own_servers

RECORDS = 60_000
PARTITIONS = 16
VALUE = b"x" * 400
CALLERS = (64, 256, 2_000)


async def bare_send(settings: KafkaSettings, topic: str) -> None:
    """Everything handed to `send` as fast as it takes it, acknowledged at the end."""
    async with _producer(settings) as producer:
        acks = [await producer.send(topic, VALUE, partition=n % PARTITIONS) for n in range(RECORDS)]
        await asyncio.gather(*acks)


async def bare_batches(settings: KafkaSettings, topic: str) -> None:
    """Full batches, one in flight a partition: the ceiling of group commit."""

    async def fill(partition: int) -> None:
        left = RECORDS // PARTITIONS
        while left:
            batch = producer.create_batch()
            while left and batch.append(timestamp=None, key=None, value=VALUE) is not None:
                left -= 1
            await (await producer.send_batch(batch, topic, partition=partition))

    async with _producer(settings) as producer:
        await asyncio.gather(*(fill(partition) for partition in range(PARTITIONS)))


def through_writer(callers: int) -> Callable[[KafkaSettings, str], Coroutine[Any, Any, None]]:
    async def run(settings: KafkaSettings, topic: str) -> None:
        writer = LogWriter(settings)
        await writer.start()

        async def caller(number: int) -> None:
            for n in range(number, RECORDS, callers):
                await writer.append(topic, n % PARTITIONS, VALUE)

        try:
            await asyncio.gather(*(caller(number) for number in range(callers)))
        finally:
            await writer.stop()

    return run


def _producer(settings: KafkaSettings) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        bootstrap_servers=settings.kafka_bootstrap_servers,
        acks="all",
        enable_idempotence=True,
        max_batch_size=settings.produce_max_batch_bytes,
    )


async def main() -> None:
    async with own_servers() as servers:
        await measure(KafkaSettings(kafka_bootstrap_servers=servers.kafka))


async def measure(settings: KafkaSettings) -> None:
    topic = votes_topic(f"bench-{uuid.uuid4().hex[:8]}", PARTITIONS)
    await create_topics(settings, [topic])
    runs: dict[str, Callable[[KafkaSettings, str], Coroutine[Any, Any, None]]]
    runs = {"bare send": bare_send, "bare send_batch": bare_batches}
    runs |= {f"LogWriter, {callers} callers": through_writer(callers) for callers in CALLERS}
    ceiling = 0.0
    print(f"{'':26}{'records/s':>12}{'of bare send':>14}")
    for name, run in runs.items():
        await run(settings, topic.name)
        begun = time.perf_counter()
        await run(settings, topic.name)
        rate = RECORDS / (time.perf_counter() - begun)
        ceiling = ceiling or rate
        print(f"{name:26}{rate:12,.0f}{rate / ceiling:14.2f}")


if __name__ == "__main__":
    uvloop.run(main())
