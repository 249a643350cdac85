"""Reader of single records of the log: concurrently from several partitions, with one consumer."""

import asyncio
from collections import defaultdict
from collections.abc import Callable

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition

from libs.kafka.cancellation import StartedOnce, call, stop


class SingleRecords:
    """A consumer that is assigned each partition ever read, and fetches only from those being read now.

    Reads of one partition run one at a time, so that an unresponsive partition delays only its own readers.
    """

    def __init__(self, new_consumer: Callable[[], AIOKafkaConsumer], silence_s: float) -> None:
        """A consumer without any success for `silence_s` is replaced at its next failure."""

        def make() -> AIOKafkaConsumer:
            self._answered_at = asyncio.get_running_loop().time()
            return new_consumer()

        self._consumer = StartedOnce(make, stop)
        self._silence_s = silence_s
        self._turns: defaultdict[TopicPartition, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._reading: dict[TopicPartition, int] = {}
        self._answered_at = 0.0

    async def read(self, tp: TopicPartition, offset: int, wait_s: float) -> ConsumerRecord[bytes, bytes]:
        """Return the record at `offset`. Raises the consumer's errors, and `TimeoutError` after `wait_s`."""
        try:
            record = await call(self._read(tp, offset), wait_s)
        except Exception:
            if asyncio.get_running_loop().time() - self._answered_at > self._silence_s:
                await self.close()
            raise
        self._answered_at = asyncio.get_running_loop().time()
        return record

    async def close(self) -> None:
        await self._consumer.drop()

    async def _read(self, tp: TopicPartition, offset: int) -> ConsumerRecord[bytes, bytes]:
        async with self._turns[tp]:
            return await self._fetch(await self._consumer.get(), tp, offset)

    async def _fetch(
        self, consumer: AIOKafkaConsumer, tp: TopicPartition, offset: int
    ) -> ConsumerRecord[bytes, bytes]:
        self._reading[tp] = offset
        if tp in consumer.assignment():
            consumer.seek(tp, offset)
            consumer.resume(tp)
        else:
            self._assign(consumer, tp)
        try:
            return await consumer.getone(tp)
        finally:
            del self._reading[tp]
            consumer.pause(tp)
            # Drop prefetched records: while they are buffered, the consumer fetches nothing from their broker.
            consumer.seek(tp, offset)

    def _assign(self, consumer: AIOKafkaConsumer, tp: TopicPartition) -> None:
        """Add a partition. A new assignment loses all positions, so the running reads are repositioned."""
        consumer.assign([*consumer.assignment(), tp])
        for each in consumer.assignment():
            if each not in self._reading:
                consumer.pause(each)
            consumer.seek(each, self._reading.get(each, 0))
