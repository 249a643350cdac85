"""The CPU time of the event loop's turns, which does not depend on what else the machine does."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

LONGEST_S: Final = 0.1
"""What a turn may take: all other requests wait meanwhile."""


class Turns:
    """The longest turn so far, in seconds of CPU time of the loop's thread."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._began = time.thread_time()

    def end(self) -> None:
        """End a turn, and begin the next one."""
        now = time.thread_time()
        self.longest_s, self._began = max(self.longest_s, now - self._began), now


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measure each turn of the running loop within."""

    async def measure() -> None:
        while True:
            await asyncio.sleep(0)
            turns.end()

    turns, measuring = Turns(), asyncio.get_running_loop().create_task(measure())
    try:
        yield turns
    finally:
        turns.end()
        measuring.cancel()
