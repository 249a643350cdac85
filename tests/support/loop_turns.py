"""The CPU time of what an event loop does in one go, which does not depend on what else the machine does."""

from __future__ import annotations

import asyncio
import threading
import time
from asyncio import Handle
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

LONGEST_S: Final = 0.1
"""What a turn may take: all other requests wait meanwhile."""
UNIT_S: Final = 0.025
"""CPU time of the work of `slowness` on a machine on which `LONGEST_S` holds."""


class Turns:
    """The longest turn so far, in seconds of CPU time of the loop's thread."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._began = time.thread_time()

    def end(self) -> None:
        """End a turn, and begin the next one."""
        now = time.thread_time()
        self.longest_s, self._began = max(self.longest_s, now - self._began), now

    async def take(self) -> float:
        """Return the longest turn since the last call, once the present one is over; from any thread."""
        over = Future[None]()
        self._loop.call_soon_threadsafe(over.set_result, None)
        await asyncio.wrap_future(over)
        longest_s, self.longest_s = self.longest_s, 0.0
        return longest_s


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measure what this thread's event loop runs within: each callback, and the rest of the present one."""
    handles: Any = Handle
    run: Callable[[Handle], None] = handles._run
    turns, thread = Turns(), threading.get_ident()

    def measure(handle: Handle) -> None:
        is_ours = threading.get_ident() == thread
        if is_ours:
            turns.end()
        run(handle)
        if is_ours:
            turns.end()

    handles._run = measure
    try:
        yield turns
    finally:
        turns.end()
        handles._run = run


def slowness() -> float:
    """Return how many times slower than that machine this one is now; at least 1."""
    began = time.thread_time()
    sum(range(1_000_000))
    return max(1.0, (time.thread_time() - began) / UNIT_S)
