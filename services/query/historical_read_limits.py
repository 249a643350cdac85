"""Limits the load of historical reads on Valkey: concurrency, and a rate per account."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final
from weakref import WeakValueDictionary

from libs.web.errors import RateLimited

AT_ONCE: Final = 2
"""Concurrent reads of a process, of different accounts: their calls reach Valkey together."""
BURST_S: Final = 20
"""Burst of an account, in seconds of its rate."""
MOST_ACCOUNTS: Final = 10_000
PARTITION_ROWS: Final = 10
"""Fixed cost of reading a partition, in rows."""


class PastReads:
    """Rate limiter of historical reads by their rows, which cost Valkey some 15 us each.

    A row is a participant, or an external source, of a partition. A read that costs more than the remaining
    budget is admitted if any budget remains, and the debt is paid off over time.
    """

    def __init__(self, rows_per_s: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Limit each account to `rows_per_s`; 0: no limit."""
        self._rate = rows_per_s
        self._clock = clock
        self._left = OrderedDict[str, tuple[float, float]]()
        self._locks = WeakValueDictionary[str, asyncio.Lock]()
        self._slots = asyncio.Semaphore(AT_ONCE)

    @asynccontextmanager
    async def turn(self, account: str, rows: int) -> AsyncIterator[None]:
        """Admit one read of an account at a time, and `AT_ONCE` in all. Raises `RateLimited`."""
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
                "This account has read too many past counts in a short time.",
                retry_after_s=1 - left / self._rate,
            )
