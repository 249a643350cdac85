"""Reads the record of one vote from the log."""

from collections.abc import Awaitable, Callable
from typing import Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log
from libs.tally.events import VoteCast
from libs.voting.timeouts import READ_WAIT_S

CastReader = Callable[[int, int], Awaitable[VoteCast | None]]
"""Reads the vote at a partition and offset of the log. Raises `LogUnavailable` within `READ_WAIT_S`."""


class RecordReader(Protocol):
    """Interface of the log reader that reads single records."""

    async def record(self, topic: str, partition: int, offset: int, wait_s: float) -> LogRecord: ...


def cast_reader(reader: RecordReader, topic: Log) -> CastReader:
    async def read(partition: int, offset: int) -> VoteCast | None:
        record = await reader.record(topic.name, partition, offset, READ_WAIT_S)
        event = vote_codec.decode(record.value)
        return event if isinstance(event, VoteCast) else None

    return read
