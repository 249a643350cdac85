"""Starts votes in groups under load, so that a call of Valkey and a request to Kafka serve many of them."""

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Final, Generic, TypeVar

T = TypeVar("T")

FEW_RUNS: Final = 8
"""With fewer votes at a time, each starts at once: the load is low."""
LEAST_GROUP: Final = 32
MOST_GROUP: Final = 64
"""Bounds of a group, which is half of the votes at a time: all of them if they are fewer than the lower bound."""
LONGEST_WAIT_S: Final = 0.01
"""Maximum wait for a group, if fewer votes come than before."""


class RunPace(Generic[T]):
    """Collects votes until a group is complete, and starts them together.

    As many votes are expected at a time as were in progress and waiting before: clients send their next ones when
    they are answered. An incomplete group ends that expectation. Without groups, votes spread over the steps of
    their way: each call then serves few of them, and the fewer clients a process has, the more a vote costs.
    """

    def __init__(self, start: Callable[[T], None]) -> None:
        self._start = start
        self._waiting: list[T] = []
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_progress = 0
        self._expected = 0

    def add(self, run: T) -> None:
        """Start a run at the end of the event loop's tick, or with its group."""
        self._waiting.append(run)
        if self._next is None:
            # all runs of a batch are added by then
            self._next = asyncio.get_running_loop().call_soon(self._decide, context=Context())

    def end(self) -> None:
        """Note that a started run has ended."""
        self._in_progress -= 1

    def _decide(self) -> None:
        self._next = None
        self._expected = max(self._expected, self._in_progress + len(self._waiting))
        group = min(self._expected, max(LEAST_GROUP, min(MOST_GROUP, self._expected // 2)))
        if self._expected < FEW_RUNS or len(self._waiting) >= group:
            self._start_all()
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(LONGEST_WAIT_S, self._start_incomplete, context=Context())

    def _start_incomplete(self) -> None:
        self._expected = 0
        self._start_all()

    def _start_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        waiting, self._waiting = self._waiting, []
        self._in_progress += len(waiting)
        for run in waiting:
            self._start(run)
