"""The merge of several partitions by append time."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from libs.audit.partition_merge import Entry, in_order
from libs.contracts.codec import Undecodable
from libs.contracts.log_records import LogRecord
from libs.tally.errors import LogUnavailable


def an_entry(partition: int, time_ms: int) -> Entry[int]:
    record = LogRecord(offset=time_ms, timestamp_ms=time_ms, key=None, value=b"")
    return Entry(time_ms, partition, record, Undecodable("of no interest"))


async def stream(partition: int, *times_ms: int) -> AsyncGenerator[Entry[int], None]:
    for time_ms in times_ms:
        yield an_entry(partition, time_ms)


async def failing() -> AsyncGenerator[Entry[int], None]:
    raise LogUnavailable("Kafka is away.")
    yield an_entry(0, 0)


async def slow(closed: list[bool]) -> AsyncGenerator[Entry[int], None]:
    """Is still being read when the other one fails."""
    try:
        for _ in range(100):
            await asyncio.sleep(0)
        yield an_entry(1, 1)
    finally:
        closed.append(True)


async def test_entries_are_merged_by_time_and_then_by_stream() -> None:
    merged = in_order([stream(0, 1, 3, 3), stream(1), stream(2, 2, 3)])
    assert [(entry.partition, entry.time_ms) async for entry in merged] == [(0, 1), (2, 2), (0, 3), (0, 3), (2, 3)]


async def test_the_error_of_one_partition_is_raised_after_the_others_were_closed() -> None:
    closed: list[bool] = []
    with pytest.raises(LogUnavailable, match="Kafka is away"):
        await anext(in_order([failing(), slow(closed)]))
    assert closed == [True]
