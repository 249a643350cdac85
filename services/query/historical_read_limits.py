"""The share of Valkey that reads of the past may take: in turns, and of each account only so much."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from libs.web.errors import RateLimited

AT_ONCE: Final = 2
"""Reads under way in a process, of different accounts: their calls come to Valkey together."""
BURST_S: Final = 20
"""What an account may read at once, in seconds of its rate."""
MOST_ACCOUNTS: Final = 10_000
PARTITION_ROWS: Final = 10
"""What asking a partition costs, in rows."""


class PastReads:
    """Admits reads of the past, by the rows that they read: some 15 us of Valkey each.

    A row is a participant, or an external source, of a partition. One that costs more than is left is admitted as
    long as anything is left, and paid off later.
    """

    def __init__(self, rows_per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        """`rows_per_s` of an account; 0: no limit."""
        self._rate = rows_per_s
        self._clock = clock
        self._left = OrderedDict[str, tuple[float, float]]()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self, account: str, rows: int) -> AsyncIterator[None]:
        """One read at a time of an account, and few at a time in all. Raises `RateLimited`."""
        async with self._locks.setdefault(account, asyncio.Lock()):
            self._spend(account, rows)
            async with self._slots:
                yield

    def _spend(self, account: str, rows: int) -> None:
        if not self._rate:
            return
        now, burst = self._clock(), self._rate * BURST_S
        left, at = self._left.pop(account, (burst, now))
        left = min(burst, left + (now - at) * self._rate)
        self._left[account] = left - max(0, rows) * (left > 0), now
        if len(self._left) > MOST_ACCOUNTS:
            self._left.popitem(last=False)
        if left <= 0:
            raise RateLimited(
                "This account has read many past counts just now.",
                retry_after_s=1 - left / self._rate,
            )
