"""Compares LogWriter with a bare aiokafka loop: `python -m tests.benchmarks.bench_writer [rounds]`.

One process, one broker, 16 partitions, 400-byte values. The writer is called as ingestion calls it: by many
coroutines, each waiting for its own record's answer; the bare loops have no callers to answer.
"""

import asyncio
import time
import uuid
from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from aiokafka import AIOKafkaProducer

from libs.contracts.topics import votes_topic
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.kafka.topics import create_topics
from libs.kafka.writer import LogWriter
from tests.benchmarks.alone import alone
from tests.benchmarks.cpu import CpuMeter
from tests.benchmarks.measurement import OURS, Measurement, Party, Run, Scale
from tests.benchmarks.stack import own_servers

PARTITIONS = 16
VALUE = b"x" * 400
CALLERS = (64, 256, 2_000)

Append: TypeAlias = Callable[[KafkaSettings, str, int], Coroutine[Any, Any, None]]
"""Appends so many records to a topic."""


async def bare_send(settings: KafkaSettings, topic: str, records: int) -> None:
    """Everything handed to `send` as fast as it takes it, acknowledged at the end."""
    async with _producer(settings) as producer:
        acks = [await producer.send(topic, VALUE, partition=n % PARTITIONS) for n in range(records)]
        await asyncio.gather(*acks)


async def bare_batches(settings: KafkaSettings, topic: str, records: int) -> None:
    """Full batches, one in flight a partition: the ceiling of group commit."""

    async def fill(partition: int) -> None:
        left = records // PARTITIONS
        while left:
            batch = producer.create_batch()
            while left and batch.append(timestamp=None, key=None, value=VALUE) is not None:
                left -= 1
            await (await producer.send_batch(batch, topic, partition=partition))

    async with _producer(settings) as producer:
        await asyncio.gather(*(fill(partition) for partition in range(PARTITIONS)))


def through_writer(callers: int) -> Append:
    async def run(settings: KafkaSettings, topic: str, records: int) -> None:
        writer = LogWriter(settings)
        await writer.start()

        async def caller(number: int) -> None:
            for n in range(number, records, callers):
                await writer.append(topic, n % PARTITIONS, VALUE)

        try:
            await asyncio.gather(*(caller(number) for number in range(callers)))
        finally:
            await writer.stop()

    return run


def _producer(settings: KafkaSettings) -> AIOKafkaProducer:
    return AIOKafkaProducer(
        **connection(settings),
        acks="all",
        enable_idempotence=True,
        max_batch_size=settings.produce_max_batch_bytes,
    )


async def measure(scale: Scale) -> list[Measurement]:
    records = scale.pick(3_000, 60_000)
    async with own_servers() as servers:
        settings = KafkaSettings(kafka_bootstrap_servers=servers.kafka)
        topic = votes_topic(f"bench-{uuid.uuid4().hex[:8]}", PARTITIONS)
        await create_topics(settings, [topic])

        async def party(name: str, run: Append) -> Party:
            await run(settings, topic.name, records)
            return Party(name, [await timed(run, settings, topic.name, records) for _ in range(scale.rounds)])

        bare, batches = await party("bare send", bare_send), await party("bare send_batch", bare_batches)
        return [
            Measurement(
                f"LogWriter, {callers:,} callers",
                "records/s",
                "higher",
                await party(OURS, through_writer(callers)),
                [bare],
                batches,
            )
            for callers in CALLERS
        ]


async def timed(run: Append, settings: KafkaSettings, topic: str, records: int) -> Run:
    meter, begun = CpuMeter(own="writer"), time.perf_counter()
    await run(settings, topic, records)
    return Run(records / (time.perf_counter() - begun), meter.each_us(records, ("writer", "Kafka")))


if __name__ == "__main__":
    alone("Log writer", measure)
