"""Polls for a condition until a deadline."""

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar, overload

T = TypeVar("T")

DEADLINE_S = 120.0
"""For a busy machine: a test that passes does not wait for it."""


@overload
async def eventually(
    check: Callable[[], Awaitable[T]], deadline_s: float = DEADLINE_S, every_s: float = 0.02
) -> T: ...
@overload
async def eventually(check: Callable[[], T], deadline_s: float = DEADLINE_S, every_s: float = 0.02) -> T: ...
async def eventually(check: Callable[[], object], deadline_s: float = DEADLINE_S, every_s: float = 0.02) -> object:
    """Call `check`, plain or async, until it returns a true value, and return that.

    An `AssertionError` in it counts as false. After `deadline_s` the last one is raised, or an `AssertionError`
    with the last value.
    """
    deadline = time.monotonic() + deadline_s
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
        if time.monotonic() > deadline:
            raise failure or AssertionError(f"still {value!r} after {deadline_s:g} s")
        await asyncio.sleep(every_s)
