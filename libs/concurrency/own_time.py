"""Tells a slow process from slow servers: on a busy machine it waits for a processor, and not for an answer."""

import time
from contextlib import suppress
from pathlib import Path
from typing import Final

BUSY: Final = 0.4
"""Share of a time from which on it was this thread's own: servers' answers may have waited for it to read them."""
SCHEDULING: Final = Path("/proc/thread-self/schedstat")
"""Nanoseconds that the thread ran, and that it was runnable without a processor; Linux."""


class OwnTime:
    """Time since its construction in which this thread ran, or waited for a processor to do so."""

    def __init__(self) -> None:
        self._began, self._own = time.monotonic(), _own_s()

    def is_most(self, longer_than_s: float) -> bool:
        """Return whether the time is longer than that and was the thread's own: it says little about servers."""
        whole_s = time.monotonic() - self._began
        return whole_s > longer_than_s and _own_s() - self._own > BUSY * whole_s


def _own_s() -> float:
    with suppress(OSError, ValueError, IndexError):
        ran, waited = SCHEDULING.read_text().split()[:2]
        return (int(ran) + int(waited)) / 1e9
    return time.thread_time()
