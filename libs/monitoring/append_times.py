"""When records of a topic were appended, by their offsets."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import NamedTuple

from libs.kafka.reader import FIRST_RECORD_BYTES, Extent, LogReader


class TimeAt(NamedTuple):
    """A record's place in one topic."""

    partition: int
    offset: int


class AppendTimes:
    """Remembers what was asked for last: of partitions where nothing goes on, nothing is read again."""

    def __init__(self, reader: LogReader, topic: str) -> None:
        self._reader = reader
        self._topic = topic
        self._known: dict[TimeAt, int] = {}

    async def read(self, places: Iterable[TimeAt]) -> dict[TimeAt, int]:
        """Milliseconds of each, which must be in the log. Raises `LogChanged` and `LogUnavailable`."""
        wanted = set(places)
        self._known = {at: time for at, time in self._known.items() if at in wanted}
        ranges: dict[int, Extent] = {}
        for partition, offset in sorted(wanted - self._known.keys()):
            first = ranges[partition].beginning if partition in ranges else offset
            ranges[partition] = Extent(first, offset + 1)
        async with aclosing(self._reader.records(self._topic, ranges, fetch_bytes=FIRST_RECORD_BYTES)) as batches:
            async for partition, records in batches:
                self._known |= {TimeAt(partition, record.offset): record.timestamp_ms for record in records}
        return self._known
