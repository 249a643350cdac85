"""Awaits aiokafka's calls so that cancellations stay where they belong.

aiokafka (0.14) breaks both of asyncio's rules about cancellation. While it closes, it catches the CancelledError
that its caller was sent: a task that was cancelled just then goes on for ever, deaf to SIGTERM. And it raises
CancelledError of its own: `Fetcher.close` awaits fetches that it cancelled, of which one that was pausing after a
failed request ends as cancelled. So each call has a task of its own.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

T = TypeVar("T")
STOP_S: Final = 5.0
"""How long a consumer's end is waited for; it goes on in the background."""

_running: Final[set[asyncio.Task[Any]]] = set()
"""Kept until they end: the event loop holds tasks weakly."""


async def call(coroutine: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
    """The result of a call of the client.

    Raises what it raises, `TimeoutError` where that takes longer than `within_s`, `KafkaError` where the client
    cancelled its own work, and CancelledError only where the caller was cancelled.
    """
    task = _begin(coroutine)
    try:
        await asyncio.wait({task}, timeout=within_s)
    finally:
        finished = task.done()
        if not finished:
            task.cancel()
    if not finished:
        raise TimeoutError
    if task.cancelled():
        raise KafkaError("the client ended the call")
    return task.result()


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Close a consumer; raises nothing, and returns after `STOP_S` at the latest."""
    await asyncio.wait({_begin(consumer.stop())}, timeout=STOP_S)


def _begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.create_task(coroutine)
    _running.add(task)
    task.add_done_callback(_end)
    return task


def _end(task: asyncio.Task[Any]) -> None:
    """A failure that nobody waits for any more must not be reported as an unseen one."""
    _running.discard(task)
    if not task.cancelled():
        task.exception()
