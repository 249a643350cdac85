"""Reads single votes from the log, and caches them by their position: the log never changes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Log
from libs.tally.events import VoteCast

READ_WAIT_S: Final = 2.0
"""Wait for a removed vote's record, whose address gets its votes back; without it the removal continues."""
MOST_CASTS: Final = 10_000

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


class CastCache:
    """Reads cast votes from the log and keeps the latest `MOST_CASTS`."""

    def __init__(self, read: CastReader) -> None:
        self._read = read
        self._casts: OrderedDict[tuple[int, int], VoteCast | None] = OrderedDict()

    async def read(self, partition: int, offset: int) -> VoteCast | None:
        """Return the vote; None if another event is there. Raises `LogUnavailable`."""
        place = partition, offset
        if place not in self._casts:
            self._casts[place] = await self._read(partition, offset)
            if len(self._casts) > MOST_CASTS:
                self._casts.popitem(last=False)
        self._casts.move_to_end(place)
        return self._casts[place]
