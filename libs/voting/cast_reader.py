"""Reads single votes from the log, and caches them by their position: the log never changes."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

from libs.contracts.codec import vote_codec
from libs.contracts.topics import Log
from libs.kafka.reader import LogReader
from libs.tally.events import VoteCast

READ_WAIT_S: Final = 2.0
"""Wait for a removed vote's record, whose address gets its votes back; without it the removal continues."""
MOST_CASTS: Final = 10_000

ReadCast = Callable[[int, int], Awaitable[VoteCast | None]]
"""Reads the vote at a partition and offset, as `CastReader.read`."""


class CastReader:
    """Reads cast votes and keeps the latest `MOST_CASTS`."""

    def __init__(self, reader: LogReader, topic: Log) -> None:
        self._reader = reader
        self._topic = topic
        self._casts: OrderedDict[tuple[int, int], VoteCast | None] = OrderedDict()

    async def read(self, partition: int, offset: int) -> VoteCast | None:
        """Return the vote; None if another event is there. Raises `LogUnavailable` within `READ_WAIT_S`."""
        place = partition, offset
        if place not in self._casts:
            record = await self._reader.record(self._topic.name, partition, offset, READ_WAIT_S)
            event = vote_codec.decode(record.value)
            self._casts[place] = event if isinstance(event, VoteCast) else None
            if len(self._casts) > MOST_CASTS:
                self._casts.popitem(last=False)
        self._casts.move_to_end(place)
        return self._casts[place]
