"""Single flight: concurrent callers share one execution of the same work."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """Runs `work` at most once at a time, with at most one queued run, regardless of the number of callers.

    A run starts no earlier than `apart_s` after the previous start, and no earlier than a pause after the previous
    end: `rest` times that run's duration, at most `LONGEST_REST_S`. Otherwise it starts at once.
    """

    LONGEST_REST_S = 0.25

    def __init__(self, work: Callable[[], Awaitable[T]], apart_s: float = 0.0, rest: float = 0.0) -> None:
        self._work = work
        self._apart_s = apart_s
        self._rest = rest
        self._not_before = 0.0
        self._waiting: list[asyncio.Future[T]] = []
        self._served: list[asyncio.Future[T]] | None = None
        self._task: asyncio.Task[None] | None = None

    def next(self) -> "asyncio.Future[T]":
        """Return the result or error of a run that starts after this call, so it is never older than the call."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return future

    def current(self) -> "asyncio.Future[T]":
        """Return the result of the run in progress, which may have started before this call; else of the next."""
        if self._served is None:
            return self.next()
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._served.append(future)
        return future

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                if (early := self._not_before - loop.time()) > 0:
                    await asyncio.sleep(early)
                started = loop.time()
                self._served, self._waiting = self._waiting, []
                try:
                    result = await self._work()
                except Exception as error:
                    for future in self._served:
                        if not future.done():
                            future.set_exception(error)
                else:
                    for future in self._served:
                        if not future.done():
                            future.set_result(result)
                self._served = None
                ended = loop.time()
                rest_s = min(self._rest * (ended - started), self.LONGEST_REST_S)
                self._not_before = max(started + self._apart_s, ended + rest_s)
        finally:
            for future in (self._served or []) + self._waiting:
                future.cancel()
            self._task = self._served = None
            self._waiting = []


def outcome(future: "asyncio.Future[T]") -> T | BaseException:
    """Return the result or the error of a future that is done."""
    if future.cancelled():
        return asyncio.CancelledError()
    return future.exception() or future.result()
