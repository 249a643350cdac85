"""Polls for a condition until a deadline."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

DEADLINE_S = 120.0
"""For a busy machine: a test that passes does not wait for it."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.02, 0.1
"""Between two polls: a twentieth of the time waited so far, within these."""


@overload
async def eventually(
    check: Callable[[], Awaitable[T]], deadline_s: float = DEADLINE_S, every_s: float | None = None
) -> T: ...
@overload
async def eventually(
    check: Callable[[], T], deadline_s: float = DEADLINE_S, every_s: float | None = None
) -> T: ...
async def eventually(
    check: Callable[[], object], deadline_s: float = DEADLINE_S, every_s: float | None = None
) -> object:
    """Call `check`, plain or async, until it returns a true value, and return that.

    An `AssertionError` in it counts as false. After `deadline_s` the last one is raised, or an `AssertionError`
    with the last value. `every_s` is a fixed pause between the calls, for a state that passes quickly; without it
    the pauses become longer with the wait.
    """
    began = time.monotonic()
    while True:
        failure: AssertionError | None = None
        value: object = None
        try:
            value = check()
            if inspect.isawaitable(value):
                value = await value
            if value:
                return value
        except AssertionError as error:
            failure = error
        waited_s = time.monotonic() - began
        if waited_s > deadline_s:
            raise failure or AssertionError(f"still {value!r} after {deadline_s:g} s")
        await asyncio.sleep(every_s or min(max(waited_s / 20, FIRST_PAUSE_S), LONGEST_PAUSE_S))
