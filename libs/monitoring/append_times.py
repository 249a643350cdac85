"""Append times of a topic's records, by offset."""

from collections.abc import Iterable
from contextlib import aclosing
from typing import NamedTuple

from libs.kafka.reader import FIRST_RECORD_BYTES, Extent, LogReader


class TimeAt(NamedTuple):
    """Partition and offset of a record in one topic."""

    partition: int
    offset: int


class AppendTimes:
    """Caches the last times requested, so that idle partitions are not read again."""

    def __init__(self, reader: LogReader, topic: str) -> None:
        self._reader = reader
        self._topic = topic
        self._known: dict[TimeAt, int] = {}

    async def read(self, places: Iterable[TimeAt]) -> dict[TimeAt, int]:
        """Return the append times in ms; the records must exist. Raises `LogChanged` and `LogUnavailable`."""
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
