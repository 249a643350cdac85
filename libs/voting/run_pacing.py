"""Starts votes in groups under load, so that a call of Valkey and a request to Kafka serve many of them."""

import asyncio
import time
from collections.abc import Callable
from contextvars import Context
from typing import Final, Generic, TypeVar

T = TypeVar("T")

FEW_RUNS: Final = 8
"""With fewer votes at a time, each starts at once: the load is low."""
LEAST_GROUP: Final = 32
MOST_GROUP: Final = 64
"""Bounds of a group, which is half of the votes at a time: all of them if they are fewer than the lower bound."""
SHORT_WAIT_S: Final = 0.01
LONGEST_WAIT_S: Final = 0.03
"""Bounds of the wait for a group, if fewer votes come than before: as long as the last votes took."""


class RunPace(Generic[T]):
    """Collects votes until a group is complete, and starts them together.

    As many votes are expected at a time as were in progress and waiting before: clients send their next ones when
    they are answered. An incomplete group ends that expectation. Without groups, votes spread over the steps of
    their way: each call then serves few of them, and the fewer clients a process has, the more a vote costs.
    """

    def __init__(self, start: Callable[[T], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._start = start
        self._clock = clock
        self._waiting: list[T] = []
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_progress = 0
        self._expected = 0
        self._started_at: float | None = None
        """When the latest group was started, until its first vote has ended."""
        self._took_s = 0.0

    def add(self, run: T) -> None:
        """Start a run at the end of the event loop's tick, or with its group."""
        self._waiting.append(run)
        if self._next is None:
            # all runs of a batch are added by then
            self._next = asyncio.get_running_loop().call_soon(self._decide, context=Context())

    def start(self, run: T) -> None:
        """Start a run at once: it follows one of a group."""
        self._in_progress += 1
        self._start(run)

    def end(self) -> None:
        """Note that a started run has ended."""
        self._in_progress -= 1
        if self._started_at is not None:
            self._took_s = self._clock() - self._started_at
            self._started_at = None

    def _decide(self) -> None:
        self._next = None
        self._expected = max(self._expected, self._in_progress + len(self._waiting))
        group = min(self._expected, max(LEAST_GROUP, min(MOST_GROUP, self._expected // 2)))
        if self._expected < FEW_RUNS or len(self._waiting) >= group:
            self._start_all()
        elif self._timer is None:
            wait_s = min(LONGEST_WAIT_S, max(SHORT_WAIT_S, self._took_s))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_s, self._start_incomplete, context=Context())

    def _start_incomplete(self) -> None:
        self._expected = 0
        self._start_all()

    def _start_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._started_at = self._clock()
        waiting, self._waiting = self._waiting, []
        self._in_progress += len(waiting)
        for run in waiting:
            self._start(run)
