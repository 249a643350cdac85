"""Doing a thing once for all who ask at about the same time, without ever answering from before they asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Rounds(Generic[T]):
    """At most one round is under way; whoever asks is answered by the next to begin.

    So however many ask, the work is done at its own pace, and what it says is never older than the question.
    Rounds begin `apart_s` or more after one another; the first after a pause begins at once.
    """

    def __init__(self, work: Callable[[], Awaitable[T]], apart_s: float = 0.0) -> None:
        self._work = work
        self._apart_s = apart_s
        self._began = 0.0
        self._waiting: list[asyncio.Future[T]] = []
        self._task: asyncio.Task[None] | None = None

    def next(self) -> "asyncio.Future[T]":
        """What a round that begins after this call gives, or raises."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        served: list[asyncio.Future[T]] = []
        try:
            while self._waiting:
                if (early := self._began + self._apart_s - loop.time()) > 0:
                    await asyncio.sleep(early)
                self._began = loop.time()
                served, self._waiting = self._waiting, []
                try:
                    result = await self._work()
                except Exception as error:
                    for future in served:
                        if not future.done():
                            future.set_exception(error)
                    continue
                for future in served:
                    if not future.done():
                        future.set_result(result)
        finally:
            self._task = None
            for future in served + self._waiting:
                future.cancel()
