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

    longest_s = 0.0


@contextmanager
def measured_turns() -> Iterator[Turns]:
    """Measure each turn of the running loop within."""

    async def measure() -> None:
        before = time.thread_time()
        while True:
            await asyncio.sleep(0)
            now = time.thread_time()
            turns.longest_s = max(turns.longest_s, now - before)
            before = now

    turns, measuring = Turns(), asyncio.get_running_loop().create_task(measure())
    try:
        yield turns
    finally:
        measuring.cancel()
