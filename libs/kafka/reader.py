"""Reader of the log without a consumer group: offsets, log ids, and all records of a range."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from aiokafka import AIOKafkaConsumer, ConsumerRecord, TopicPartition
from aiokafka.errors import ConsumerStoppedError, KafkaError, KafkaTimeoutError, NotLeaderForPartitionError

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Placement, in_topic
from libs.kafka.cancellation import StartedOnce, call, stop
from libs.kafka.errors import NO_ANSWER, LogChanged
from libs.kafka.leadership import leaders, unconfirmed
from libs.kafka.security import connection
from libs.kafka.settings import KafkaSettings
from libs.tally.errors import LogUnavailable
from libs.tally.events import LogCreated

T = TypeVar("T")
FETCH_BYTES = 1 << 20
FIRST_RECORD_BYTES = 1_000
"""Fetch size for the first batch of a partition; Kafka returns a larger batch whole."""
SINGLE_RECORD_BYTES = 4_000
"""Fetch size that suffices for one vote; a larger record is still returned."""
READ_RECORDS = 4_000
"""Maximum records per poll: they block the event loop for about 10 ms."""
RETRY_PAUSE_MS = 20
"""Backoff before a retry. The first request about a topic is always retried: its leaders are still unknown."""
NEVER = 2**63
"""The end of a range that is followed."""
SILENCE_S = 10.0
"""Seconds that a broker may return no records of a range that it reported."""


class Extent(NamedTuple):
    """The offsets of a partition: from `beginning` to before `end`."""

    beginning: int
    end: int


class _HasOffset(Protocol):
    @property
    def offset(self) -> int: ...


def as_record(raw: ConsumerRecord[bytes, bytes]) -> LogRecord:
    return LogRecord(raw.offset, raw.timestamp, raw.value or b"", raw.key)


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


class LogReader:
    """Reads partitions without a consumer group or committed offsets.

    Every method raises `LogUnavailable` if Kafka does not respond. Calls may run concurrently; each `records` has
    its own consumer, and all `record` share one.
    """

    def __init__(self, settings: KafkaSettings, place: Placement = in_topic) -> None:
        """`place` maps the partitions of a log that has several topics."""
        self._settings = settings
        self._place = place
        self._consumer = StartedOnce(self._new_consumer, stop)
        self._single = SingleRecords(self._new_consumer, SILENCE_S)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._consumer.drop()
        await self._single.close()

    async def extents(self, topic: str, partitions: Collection[int]) -> dict[int, Extent]:
        """Return the beginning and end of each partition; the end is the high watermark."""
        tps = self._places(topic, partitions)
        if not tps:
            return {}

        async def query(consumer: AIOKafkaConsumer) -> Any:
            return await asyncio.gather(consumer.beginning_offsets(list(tps)), consumer.end_offsets(list(tps)))

        beginnings, ends = await self._query(query)
        return {partition: Extent(beginnings[tp], ends[tp]) for tp, partition in tps.items()}

    async def end_offsets(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Return the offset after the last record of each partition: the head that a projection must reach."""
        tps = self._places(topic, partitions)
        if not tps:
            return {}
        ends = await self._query(lambda consumer: consumer.end_offsets(list(tps)))
        return {partition: ends[tp] for tp, partition in tps.items()}

    async def confirmed_ends(self, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """Return the end offsets, after all records that were acknowledged before the call.

        Those of `end_offsets` may be those of a broker that leads no more (`leadership.py`). Also raises
        `LogUnavailable` if too few replicas confirm who leads.
        """
        tps = self._places(topic, partitions)

        async def query(consumer: AIOKafkaConsumer) -> Any:
            client = consumer._client
            while None in (asked := leaders(client, tps)).values():
                await consumer.end_offsets(list(tps))  # finds the leaders
            ends = await consumer.end_offsets(list(tps))
            doubtful = await unconfirmed(client, asked)
            if doubtful or leaders(client, tps) != asked:
                raise NotLeaderForPartitionError(f"too few replicas confirm who leads {doubtful or topic}")
            return ends

        ends = await self._query(query) if tps else {}
        return {partition: ends[tp] for tp, partition in tps.items()}

    async def topics(self) -> set[str]:
        """Return the names of all topics that this client may see."""
        found: set[str] = await self._query(lambda consumer: consumer.topics())
        return found

    async def offsets_from(self, topic: str, partitions: Collection[int], time_ms: int) -> dict[int, int]:
        """Return the offset of each partition's first record appended at `time_ms` or later, otherwise its end."""
        tps = self._places(topic, partitions)
        if not tps:
            return {}
        times = dict.fromkeys(tps, max(0, time_ms))

        async def query(consumer: AIOKafkaConsumer) -> Any:
            return await asyncio.gather(consumer.offsets_for_times(times), consumer.end_offsets(list(tps)))

        found, ends = await self._query(query)
        return {partition: ends[tp] if found[tp] is None else found[tp].offset for tp, partition in tps.items()}

    async def log_ids(self, topic: str, partitions: Collection[int]) -> dict[int, str]:
        """Return the random id in each partition's first record; skips and raises as `first_records`."""
        return {
            partition: first.log_id for partition, first in (await self.first_records(topic, partitions)).items()
        }

    async def first_records(self, topic: str, partitions: Collection[int]) -> dict[int, LogCreated]:
        """Return each partition's first record, skipping empty partitions.

        Raises `LogChanged` if the first record is not LogCreated, or was deleted.
        """
        extents = await self.extents(topic, partitions)
        for partition, extent in extents.items():
            if extent.beginning > 0:
                raise LogChanged(
                    f"{topic}/{partition} begins at offset {extent.beginning}: its first records were deleted",
                    topic=topic,
                    partition=partition,
                )
        found: dict[int, LogCreated] = {}
        filled = {partition: Extent(0, 1) for partition, extent in extents.items() if extent.end > 0}
        async with aclosing(self.records(topic, filled, fetch_bytes=FIRST_RECORD_BYTES)) as batches:
            async for partition, records in batches:
                first = vote_codec.decode(records[0].value)
                if not isinstance(first, LogCreated):
                    raise LogChanged(
                        f"{topic}/{partition} does not begin with LogCreated", topic=topic, partition=partition
                    )
                found[partition] = first
        return found

    async def begun_ms(self, topic: str, partitions: Collection[int]) -> int:
        """Return the time at which the brokers had the first record of each partition; none may be empty."""
        ranges = dict.fromkeys(partitions, Extent(0, 1))
        async with aclosing(self.records(topic, ranges, fetch_bytes=FIRST_RECORD_BYTES)) as batches:
            return max([records[0].timestamp_ms async for _, records in batches])

    async def record(self, topic: str, partition: int, offset: int, wait_s: float = SILENCE_S) -> LogRecord:
        """Return the record at `offset`, which must be in the log, within `wait_s`."""
        return as_record(await self.whole_record(topic, partition, offset, wait_s))

    async def whole_record(
        self, topic: str, partition: int, offset: int, wait_s: float = SILENCE_S
    ) -> ConsumerRecord[bytes, bytes]:
        """Return the record as `record` does, with its key and headers."""
        with _as_log_unavailable():
            return await self._single.read(TopicPartition(*self._place(topic, partition)), offset, wait_s)

    async def records(
        self, topic: str, ranges: Mapping[int, Extent], *, fetch_bytes: int = FETCH_BYTES
    ) -> AsyncGenerator[tuple[int, Sequence[LogRecord]], None]:
        """Yield all records of each range, ascending, in batches of one partition; partitions are interleaved.

        Raises `LogChanged` at an offset gap. Use `aclosing` when leaving early.
        """
        filled = {partition: extent for partition, extent in ranges.items() if extent.beginning < extent.end}
        async with aclosing(self._batches(topic, filled, fetch_bytes)) as batches:
            async for batch in batches:
                if batch is None:
                    cause = f"no records of {topic} for {SILENCE_S:.0f} s"
                    raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=cause)
                yield batch

    async def follow(
        self, topic: str, starts: Mapping[int, int]
    ) -> AsyncGenerator[tuple[int, Sequence[LogRecord]], None]:
        """Yield all records from `starts` on, in batches of one partition, for ever.

        Waits while Kafka is silent. Raises `LogChanged` at an offset gap. Use `aclosing` when leaving.
        """
        ranges = {partition: Extent(start, NEVER) for partition, start in starts.items()}
        async with aclosing(self._batches(topic, ranges, FETCH_BYTES)) as batches:
            async for batch in batches:
                if batch is not None:
                    yield batch
        await asyncio.Event().wait()  # of no partitions

    async def _batches(
        self, topic: str, ranges: Mapping[int, Extent], fetch_bytes: int
    ) -> AsyncGenerator[tuple[int, Sequence[LogRecord]] | None, None]:
        """Yield batches until the ranges are read, and None whenever there were no records for `SILENCE_S`."""
        tps = self._places(topic, ranges)
        wanted = {tp: ranges[partition] for tp, partition in tps.items()}
        if not wanted:
            return
        consumer = self._new_consumer(fetch_bytes)
        try:
            with _as_log_unavailable():
                await call(consumer.start())
            consumer.assign(list(wanted))
            for tp, extent in wanted.items():
                consumer.seek(tp, extent.beginning)
            while wanted:
                with _as_log_unavailable():
                    fetched = await call(
                        consumer.getmany(timeout_ms=int(SILENCE_S * 1000), max_records=READ_RECORDS)
                    )
                if not fetched:
                    yield None
                for tp, raw in fetched.items():
                    if tp not in wanted:
                        continue
                    extent = wanted.pop(tp)
                    check_contiguous(f"{topic}/{tp.partition}", raw, extent.beginning)
                    rest = Extent(raw[-1].offset + 1, extent.end)
                    if rest.beginning < rest.end:
                        wanted[tp] = rest
                    else:
                        consumer.pause(tp)
                    yield tps[tp], [as_record(one) for one in raw if one.offset < extent.end]
        finally:
            await stop(consumer)

    def _places(self, topic: str, partitions: Iterable[int]) -> dict[TopicPartition, int]:
        """Return the partitions by their topics and numbers in Kafka."""
        return {TopicPartition(*self._place(topic, partition)): partition for partition in partitions}

    async def _query(self, query: Callable[[AIOKafkaConsumer], Coroutine[Any, Any, T]]) -> T:
        """Query the shared consumer, for `SILENCE_S` at most.

        aiokafka bounds a whole query, with its retries, by the timeout of one request, so one slow response ends
        it: it is repeated on a new connection. After another failure the next call creates a new consumer.
        """

        async def run() -> T:
            while True:
                try:
                    return await query(await self._consumer.get())
                except KafkaTimeoutError:
                    await self._consumer.drop()

        try:
            with _as_log_unavailable():
                return await call(run(), SILENCE_S)
        except LogUnavailable:
            await self._consumer.drop()
            raise

    def _new_consumer(self, fetch_bytes: int = SINGLE_RECORD_BYTES) -> AIOKafkaConsumer:
        return AIOKafkaConsumer(
            **connection(self._settings),
            group_id=None,
            client_rack=self._settings.kafka_client_rack or None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_partition_fetch_bytes=fetch_bytes,
            retry_backoff_ms=RETRY_PAUSE_MS,
        )


@contextmanager
def _as_log_unavailable() -> Iterator[None]:
    try:
        yield
    except (KafkaError, ConsumerStoppedError, OSError, TimeoutError) as error:
        raise LogUnavailable(NO_ANSWER, retry_after_s=1, cause=error) from error


def check_contiguous(name: str, records: Sequence[_HasOffset], wanted: int) -> None:
    """Raise `LogChanged` unless the offsets of `records` start at `wanted` and are contiguous.

    Kafka's offsets are contiguous without transactions and compaction.
    """
    if records[0].offset == wanted and records[-1].offset == wanted + len(records) - 1:
        return
    found = next(record.offset for at, record in enumerate(records, wanted) if record.offset != at)
    missing = wanted + [record.offset for record in records].index(found)
    raise LogChanged(f"{name} has an offset gap: expected {missing}, found {found}", log=name)
