"""Keeps large work from stopping the event loop: in turns, or in a thread."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from typing import Final, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

TURN_BYTES: Final = 32 << 10
"""Input that is worked on in one turn: validating and showing so much JSON takes up to 30 ms."""
LARGE_BYTES: Final = 64 << 10
"""Input from which on a thread is worth its start."""
_WORKER: Final = ThreadPoolExecutor(1, "large")
"""One thread: Python lets the event loop go on every 5 ms, of several threads after each of them."""


async def in_turns(items: Iterable[T], size: Callable[[T], int]) -> AsyncIterator[T]:
    """Yield the items; other tasks have their turn before each that would exceed `TURN_BYTES`."""
    held = 0
    for item in items:
        held += size(item)
        if held > TURN_BYTES:
            await asyncio.sleep(0)
            held = size(item)
        yield item


async def off_loop(size: int, work: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
    """Return the result of `work`, which is done in a thread if its input has more than `LARGE_BYTES`.

    Meanwhile the event loop serves others. `work` must not use anything that the loop's tasks change.
    """
    call = partial(work, *args, **options)
    if size <= LARGE_BYTES:
        return call()
    return await asyncio.get_running_loop().run_in_executor(_WORKER, copy_context().run, call)
