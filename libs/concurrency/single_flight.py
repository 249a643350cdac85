"""Single flight: work done once for all who ask at about the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SingleFlight(Generic[T]):
    """At most one run of `work` is under way, and at most one is queued behind it, however many ask.

    A run begins `apart_s` or more after the one before began, and `rest` times as long as that one took after it
    ended, but no later than `LONGEST_REST_S` after; the first after a pause begins at once.
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
        """The result, or error, of a run that begins after this call: never older than the question."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        if self._task is None:
            self._task = asyncio.ensure_future(self._run())
        return future

    def current(self) -> "asyncio.Future[T]":
        """The result of the run that is under way, which may have begun before this call; else of the next."""
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
                began = loop.time()
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
                rest_s = min(self._rest * (ended - began), self.LONGEST_REST_S)
                self._not_before = max(began + self._apart_s, ended + rest_s)
        finally:
            for future in (self._served or []) + self._waiting:
                future.cancel()
            self._task = self._served = None
            self._waiting = []
