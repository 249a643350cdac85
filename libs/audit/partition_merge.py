"""Merges the records of several partitions and topics into one sequence by append time."""

import asyncio
import heapq
from collections.abc import AsyncGenerator, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Final, Generic, NamedTuple, TypeVar

from libs.contracts.codec import Codec, Undecodable, vote_codec
from libs.contracts.log_records import LogRecord
from libs.kafka.reader import Extent, LogReader
from libs.tally.events import Event

FETCH_BYTES: Final = 256 << 10
"""Fetch size in bytes. Partitions are fetched separately, so that none has to be buffered for another."""
ALL: Final = (b"",)

E = TypeVar("E")


class MergedRecord(NamedTuple, Generic[E]):
    """One record. `time_ms` is the latest append time in the partition so far: it never decreases, as broker
    clocks may.
    """

    time_ms: int
    partition: int
    record: LogRecord
    event: E | Undecodable


async def extents_between(
    reader: LogReader, topic: str, partitions: Collection[int], since_ms: int, until_ms: int | None
) -> dict[int, Extent]:
    """Return the offsets of the records appended in [since, until), until now if None. Raises `LogChanged`."""
    await reader.log_ids(topic, partitions)
    starts = await reader.offsets_from(topic, partitions, since_ms)
    ends = await reader.end_offsets(topic, partitions)
    if until_ms is not None:
        ends = await reader.offsets_from(topic, partitions, until_ms)
    return {
        partition: Extent(min(starts[partition], ends[partition]), ends[partition]) for partition in partitions
    }


def streams(
    reader: LogReader,
    topic: str,
    extents: Mapping[int, Extent],
    codec: Codec[E],
    words: Collection[bytes] = ALL,
) -> list[AsyncGenerator[MergedRecord[E], None]]:
    """Return a stream for each partition, of the records that contain one of the words; others are not decoded."""
    return [
        _stream(reader, topic, partition, extent, codec, words)
        for partition, extent in sorted(extents.items())
        if extent.beginning < extent.end
    ]


async def in_order(
    streams: Sequence[AsyncGenerator[MergedRecord[E], None]],
) -> AsyncGenerator[MergedRecord[E], None]:
    """Yield the entries of all streams by time; at the same time the earlier stream in `streams` comes first."""
    async with AsyncExitStack() as stack:
        for stream in streams:
            await stack.enter_async_context(aclosing(stream))
        first = await asyncio.gather(*(anext(stream, None) for stream in streams))
        heads = [(entry.time_ms, index, entry) for index, entry in enumerate(first) if entry is not None]
        heapq.heapify(heads)
        while heads:
            _, index, entry = heads[0]
            yield entry
            following = await anext(streams[index], None)
            if following is None:
                heapq.heappop(heads)
            else:
                heapq.heapreplace(heads, (following.time_ms, index, following))


async def followed(
    reader: LogReader, topic: str, starts: Mapping[int, int]
) -> AsyncGenerator[MergedRecord[Event], None]:
    """Yield all records from `starts` on as they arrive, without end."""
    async with aclosing(reader.follow(topic, starts)) as batches:
        async for partition, records in batches:
            for entry in _entries(partition, records, 0, vote_codec):
                yield entry


async def _stream(
    reader: LogReader,
    topic: str,
    partition: int,
    extent: Extent,
    codec: Codec[E],
    words: Collection[bytes],
) -> AsyncGenerator[MergedRecord[E], None]:
    latest_ms = 0
    async with aclosing(reader.records(topic, {partition: extent}, fetch_bytes=FETCH_BYTES)) as batches:
        async for _, records in batches:
            chosen = [record for record in records if any(word in record.value for word in words)]
            for entry in _entries(partition, chosen, latest_ms, codec):
                latest_ms = entry.time_ms
                yield entry


def _entries(
    partition: int, records: Sequence[LogRecord], latest_ms: int, codec: Codec[E]
) -> Iterator[MergedRecord[E]]:
    events = codec.decode_many([record.value for record in records])
    for record, event in zip(records, events, strict=True):
        latest_ms = max(latest_ms, record.timestamp_ms)
        yield MergedRecord(latest_ms, partition, record, event)
