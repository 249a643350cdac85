"""First success: the result of the first of several calls that succeeds."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def first_success(calls: Iterable[Coroutine[Any, Any, T]]) -> T:
    """Run `calls` concurrently, return the first result, and cancel the others.

    Raises the error of the last one to fail if none succeeds. At least one call is required.
    """
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        for place, finished in enumerate(asyncio.as_completed(tasks), start=1):
            try:
                return await finished
            except Exception:
                if place == len(tasks):
                    raise
        raise ValueError("no calls")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
