"""Wait between two polls of a topic, in which records are gathered."""

from collections.abc import Callable
from typing import Final

from libs.concurrency.tasks import loop_time
from libs.projection.settings import Pace

MANY_PARTITIONS: Final = 32
DENSE_RECORDS: Final = 8
LONGEST: Final = 4
"""A batch of so many partitions is gathered up to so many times as long, until each has so many records."""


class Gathering:
    """Chooses the wait by the rate of records.

    The size of one batch does not show it: without a wait batches are small, and with one large, at the same rate.
    """

    def __init__(self, pace: Pace, clock: Callable[[], float] = loop_time) -> None:
        self._pace = pace
        self._clock = clock
        self._former_ms = 0.0
        self._since = -1.0
        self._recent = 0

    def wait_ms(self, records: int, partitions: int) -> float:
        """Return the wait after a batch of so many records and partitions: longer if many partitions have few."""
        self._former_ms = self._wait_ms(records, partitions)
        return self._former_ms

    def _wait_ms(self, records: int, partitions: int) -> float:
        pace, now = self._pace, self._clock()
        if now - self._since > pace.gather_ms / 1000:
            self._since, self._recent = now, 0
        self._recent += records
        if self._recent < pace.busy_records or records >= pace.max_records:
            return 0.0
        if partitions < MANY_PARTITIONS:
            return pace.gather_ms
        enough_ms = max(self._former_ms, pace.gather_ms) * DENSE_RECORDS * partitions / records
        return min(max(enough_ms, pace.gather_ms), LONGEST * pace.gather_ms)
