"""Appends exported records to a log with their original offsets, keys and append times."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from libs.backup.manifest import ImportRefused
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log
from libs.kafka.errors import NO_ANSWER
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable

SILENCE_S: Final = 30.0
"""Timeout of a batch's acknowledgement."""


class RawAppender:
    """Appends one batch at a time and checks its offset."""

    def __init__(self, producer: AIOKafkaProducer) -> None:
        self._producer = producer

    async def append(
        self, topic: Log, partition: int, records: Iterable[LogRecord], advance: Callable[[int], None]
    ) -> None:
        """Append the records. Raises `ImportRefused` if another process appends too, and `LogUnavailable`."""
        batch: list[LogRecord] = []
        builder = self._producer.create_batch()
        for record in records:
            if not _add(builder, record):
                await self._send(topic, partition, builder, batch[0].offset)
                advance(len(batch))
                builder, batch = self._producer.create_batch(), []
                _add(builder, record)
            batch.append(record)
        if batch:
            await self._send(topic, partition, builder, batch[0].offset)
            advance(len(batch))

    async def _send(self, topic: Log, partition: int, builder: Any, offset: int) -> None:
        try:
            async with asyncio.timeout(SILENCE_S):
                its = topic.topic_at(partition)
                name, number = its.place(its.name, partition)
                landed = await (await self._producer.send_batch(builder, name, partition=number))
        except (KafkaError, OSError, TimeoutError) as error:
            raise LogUnavailable(
                f"{NO_ANSWER} Run the import again to resume.", retry_after_s=1, cause=error
            ) from error
        if landed.offset != offset:
            raise ImportRefused(
                f"{topic.name}/{partition}: records of offset {offset} were appended at {landed.offset}. Is a "
                "service or another import running there? Import into another namespace (--namespace)."
            )


@asynccontextmanager
async def open_appender(settings: KafkaSettings) -> AsyncIterator[RawAppender]:
    producer = AIOKafkaProducer(
        **connection(settings),
        acks="all",
        enable_idempotence=True,
        max_batch_size=settings.produce_max_batch_bytes,
    )
    try:
        async with asyncio.timeout(SILENCE_S):
            await producer.start()
        yield RawAppender(producer)
    except (KafkaError, OSError, TimeoutError) as error:
        raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error
    finally:
        # An idempotent producer would retry its pending batches for ever.
        with suppress(TimeoutError):
            async with asyncio.timeout(1):
                await producer.stop()


def _add(builder: Any, record: LogRecord) -> bool:
    """Add the record and return whether it fitted; the first one always does."""
    return builder.append(timestamp=record.timestamp_ms, key=record.key, value=record.value) is not None
