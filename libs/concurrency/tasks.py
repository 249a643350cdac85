"""Tasks of asyncio: one call for several callers, the first of several to succeed, retries, polling, loops."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Hashable, Iterable
from typing import Any, Generic, NoReturn, TypeVar

from libs.tally.errors import TallyError

T = TypeVar("T")
AGAIN_S = 5.0
"""Seconds until a task that goes on is cancelled again: longer than one takes to close its clients."""

logger = logging.getLogger(__name__)


def loop_time() -> float:
    """Return the time of the running event loop."""
    return asyncio.get_running_loop().time()


class Deadline:
    """The end of a time that several steps share."""

    def __init__(self, within_s: float) -> None:
        self._end = loop_time() + within_s

    def left_s(self, share: float = 1.0) -> float:
        """Return the seconds that are left, or a share of them: the rest is for later steps."""
        return max(0.0, self._end - loop_time()) * share


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


async def end_tasks(tasks: Collection["asyncio.Task[Any]"]) -> None:
    """Cancel tasks until they have ended; their errors stay in them.

    One cancellation can be lost: `asyncio.gather` raises the error of a call that fails meanwhile in its place.
    """
    running = {*tasks}
    while running:
        for task in running:
            task.cancel()
        _, running = await asyncio.wait(running, timeout=AGAIN_S)


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


K = TypeVar("K", bound=Hashable)


class KeyedTasks(Generic[K]):
    """Runs `work` for keys, at most once at a time for each. `work` handles its errors."""

    def __init__(self, work: Callable[[K], Coroutine[Any, Any, None]]) -> None:
        self._work = work
        self._tasks: dict[K, asyncio.Task[None]] = {}

    def start(self, key: K) -> None:
        """Start the work for `key`, unless it still runs."""
        if key not in self._tasks:
            task = self._tasks[key] = asyncio.create_task(self._work(key))
            task.add_done_callback(lambda _: self._tasks.pop(key))

    async def cancel(self) -> None:
        """Cancel the running tasks, and wait for their end."""
        await end_tasks(self._tasks.values())


async def becomes_true(
    condition: Callable[[], Coroutine[Any, Any, bool]], within_s: float, poll_s: float = 0.05
) -> bool:
    """Poll the condition until it is true, and return True; return False after `within_s`."""
    deadline = asyncio.get_running_loop().time() + within_s
    while not await condition():
        if asyncio.get_running_loop().time() > deadline:
            return False
        await asyncio.sleep(poll_s)
    return True


async def retried(call: Callable[[], Awaitable[T]], attempts: int) -> T:
    """Return the result of the call; after a `TallyError` that says when, call again, `attempts` times in all."""
    for _ in range(attempts - 1):
        try:
            return await call()
        except TallyError as error:
            if error.retry_after_s is None:
                raise
            await asyncio.sleep(error.retry_after_s)
    return await call()


async def every(
    seconds: float | Callable[[], float],
    keys: Callable[[], Iterable[K]],
    work: Callable[[K], Coroutine[Any, Any, None]],
    what: str,
    level: int = logging.WARNING,
) -> NoReturn:
    """Start `work(key)` for each of `keys()` every `seconds`, until cancelled; then cancel what still runs.

    A key whose work still runs is left out, so one that hangs delays no other. Errors end no loop, the next round
    tries again: a `TallyError` is logged at `level`, any other with its traceback, and `what` says what failed.
    """

    async def attempt(key: K) -> None:
        try:
            await work(key)
        except TallyError as error:
            logger.log(level, "%s: %s", what, error)
        except Exception:
            logger.exception("%s", what)

    tasks = KeyedTasks(attempt)
    try:
        while True:
            for key in keys():
                tasks.start(key)
            await asyncio.sleep(seconds() if callable(seconds) else seconds)
    finally:
        await tasks.cancel()
