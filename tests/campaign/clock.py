"""Faults of a process's wall clock while it runs: it jumps ahead, it leaps back, or both again and again."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import chain, cycle, repeat
from typing import Final

from tests.campaign.evidence import Choose, expect
from tests.campaign.stage import Stage

OFF_S: Final = 300
LEAP_EVERY_S: Final = 1.0
SECOND_NS: Final = 1_000_000_000

CLOCKS: Final[Mapping[str, Callable[[], Iterator[int]]]] = {
    "ahead": lambda: repeat(OFF_S),
    "behind": lambda: repeat(-OFF_S),
    "leaping": lambda: chain([OFF_S], cycle([-OFF_S, 0, 2, OFF_S])),
}
"""Offsets in seconds, one after the other. Each fault begins with a jump, and ends with one."""


@asynccontextmanager
async def clock_off(choose: Choose, offsets_s: Callable[[], Iterator[int]], stage: Stage) -> AsyncIterator[None]:
    pages = [stage.page(name) for name in await choose(stage)]
    before = sum(page.clock_reads for page in pages)

    async def leap() -> None:
        for off_s in offsets_s():
            for page in pages:
                page.clock_off_ns = off_s * SECOND_NS
            await asyncio.sleep(LEAP_EVERY_S)

    leaping = asyncio.create_task(leap())
    try:
        yield
        expect(sum(page.clock_reads for page in pages) > before, "nobody has read the wrong clock")
    finally:
        leaping.cancel()
        for page in pages:
            page.clock_off_ns = 0
