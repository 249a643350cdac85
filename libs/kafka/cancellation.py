"""Isolates aiokafka's calls from the caller's cancellation.

aiokafka (0.14) breaks two of asyncio's rules. While it closes, it swallows the CancelledError of its caller, so
that a task cancelled at that moment runs for ever and ignores SIGTERM. And it raises CancelledError itself:
`Fetcher.close` awaits fetches that it cancelled, and one that is pausing after a failed request ends as cancelled.
So each call runs in its own task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Generic, Protocol, TypeVar

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaError

T = TypeVar("T")
STOP_S: Final = 5.0
"""Seconds to wait for a consumer to stop; it continues in the background."""

_running: Final[set[asyncio.Task[Any]]] = set()
"""Strong references to running tasks: the event loop has only weak ones."""


async def call(coroutine: Coroutine[Any, Any, T], within_s: float | None = None) -> T:
    """Return the result of a client call.

    Raises the call's errors, `TimeoutError` after `within_s`, `KafkaError` if the client cancelled its own work,
    and `CancelledError` only if the caller was cancelled.
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
        raise KafkaError("the client cancelled the call")
    return task.result()


class Startable(Protocol):
    """One of aiokafka's clients."""

    async def start(self) -> None: ...


C = TypeVar("C", bound=Startable)


class StartedOnce(Generic[C]):
    """A client that its first user starts, and after `drop` another one."""

    def __init__(self, make: Callable[[], C], end: Callable[[C], Awaitable[None]]) -> None:
        self._make = make
        self._end = end
        self._client: C | None = None
        self._starting = asyncio.Lock()

    async def get(self) -> C:
        """Return the started client. Raises the client's errors."""
        async with self._starting:
            if self._client is None:
                client = self._make()
                try:
                    await client.start()
                except BaseException:
                    await self._end(client)
                    raise
                self._client = client
            return self._client

    async def drop(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await self._end(client)


async def stop(consumer: AIOKafkaConsumer) -> None:
    """Close a consumer; raises nothing, and returns after at most `STOP_S`."""
    await asyncio.wait({_begin(consumer.stop())}, timeout=STOP_S)


def _begin(coroutine: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    task = asyncio.create_task(coroutine)
    _running.add(task)
    task.add_done_callback(_end)
    return task


def _end(task: asyncio.Task[Any]) -> None:
    """Retrieve the exception of a finished task, so that asyncio does not log it as never retrieved."""
    _running.discard(task)
    if not task.cancelled():
        task.exception()
