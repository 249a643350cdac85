"""Lag of views behind the log, by append times: age, rate, and stalls.

Times are milliseconds since 1970 UTC.
"""

from collections.abc import Iterable
from contextlib import aclosing
from typing import Final, NamedTuple

from libs.kafka.reader import FIRST_RECORD_BYTES, Extent, LogReader
from libs.views.generations.generations import ProjectionName

STALLED_MS: Final = 10_000
"""A healthy view processes a record within a second; a rebalance or restart takes a few seconds."""
RATE_OVER_MS: Final = 30_000
"""Maximum interval over which a current rate is computed."""


class View(NamedTuple):
    projection: ProjectionName
    partition: int
    generation: int


class Lag(NamedTuple):
    """Age of the first record that the view lacks, its rate (None at the first observation), and its stall."""

    seconds: float
    processed_per_s: float | None
    stalled_since: int | None


class _Seen(NamedTuple):
    """Position and time of a view's last observation, and the time it last advanced (0: never observed)."""

    position: int
    at: int
    moved: int


class LagTracker:
    """Tracks views: rates and stalls need the previous observation."""

    def __init__(self) -> None:
        self._seen: dict[View, _Seen] = {}

    def observe(self, view: View, position: int, now: int, first: int | None = None) -> Lag:
        """Return the lag at `now`; `first` is the append time of the first record after `position`, if any."""
        moved, rate = self._moved(view, position, now)
        if first is None:
            return Lag(0.0, rate, None)
        since = max(first, moved)
        return Lag(max(0, now - first) / 1000, rate, since if now - since > STALLED_MS else None)

    def _moved(self, view: View, position: int, now: int) -> tuple[int, float | None]:
        """Return when the view was last observed to advance (0: never), and its records per second since then."""
        last = self._seen.get(view)
        if last is None or last.at == now:
            moved, rate = 0, None
        else:
            moved = last.moved if last.position == position else now
            gone = now - last.at
            rate = max(0, position - last.position) * 1000 / gone if gone < RATE_OVER_MS else None
        self._seen[view] = _Seen(position, now, moved)
        return moved, rate


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
