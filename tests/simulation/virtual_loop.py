"""An event loop of virtual time: several simulated processes in one thread, without sockets.

Time stands still while callbacks run, and jumps to the next timer when none is ready. Each callback belongs to the
process that scheduled it. Callbacks of one process keep their order, as in a loop of its own; the seed decides
which process runs next. A frozen process runs nothing until it thaws, a killed one nothing any more.
"""

import asyncio
import heapq
import itertools
import random
import secrets
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from random import Random
from types import ModuleType
from typing import Any, Final

MOST_STEPS: Final = 2_000_000
"""Callbacks of a schedule, after which something runs for ever."""
BEGIN_S: Final = 4_103_999_990.0
"""Wall clock (s since 1970) at the begin of a schedule: ten seconds before a midnight (UTC), and far off."""


@dataclass(slots=True, eq=False)
class SimulatedProcess:
    """A process: its callbacks, its tasks, and its wall clock, which may differ from the others'."""

    name: str
    clock_ahead_s: float = 0.0
    ready: "deque[_Handle]" = field(default_factory=deque)
    newer: str = ""
    """The newer version that it is of, if any (`memory_valkey.NEWER`)."""
    is_former: bool = False
    """True if it does not know some events of the newer version."""
    is_frozen: bool = False
    is_dead: bool = False
    is_woken: bool = False
    tasks: list[asyncio.Task[Any]] = field(default_factory=list)
    """All tasks ever: those of a killed process are not collected, since that would run their `finally`."""


@dataclass(slots=True, eq=False)
class _Handle:
    """A callback that is ready, or due at `time`: the part of asyncio's own handles that is used, at less cost."""

    process: SimulatedProcess
    time: float
    callback: Callable[..., Any]
    args: tuple[Any, ...]
    context: Context | None
    """None if the callback may run in any: it is one of the simulation's own."""
    is_cancelled: bool = False

    def cancel(self) -> None:
        self.is_cancelled = True
        self.callback, self.args = _nothing, ()

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.time


def _nothing() -> None:
    """Do nothing, in place of a cancelled callback, whose objects are dropped at once."""


class Stuck(AssertionError):
    """Nothing is left to run, or too much ran."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """Implements what asyncio's tasks, futures, locks and timeouts need."""

    def __init__(self, rng: Random) -> None:
        self.now = 0.0
        self.network = SimulatedProcess("network")
        """Callbacks of servers and faults."""
        self.current = self.network
        self.errors: list[dict[str, Any]] = []
        """Exceptions that no code retrieved."""
        self.steps = 0
        self._rng = rng
        self.processes = [self.network]
        self._woken: list[SimulatedProcess] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._numbers = itertools.count()
        self._is_closed = False

    # for the simulation

    def process(self, name: str, clock_ahead_s: float = 0.0) -> SimulatedProcess:
        made = SimulatedProcess(name, clock_ahead_s)
        self.processes.append(made)
        return made

    def start(self, process: SimulatedProcess, coroutine: Coroutine[Any, Any, Any]) -> "asyncio.Task[Any]":
        """Start a task of `process`."""
        with self.acting(process):
            return self.create_task(coroutine)

    @contextmanager
    def acting(self, process: SimulatedProcess) -> Iterator[None]:
        """What is scheduled within belongs to `process`."""
        former, self.current = self.current, process
        try:
            yield
        finally:
            self.current = former

    def deliver(self, process: SimulatedProcess, delay_s: float, callback: Callable[..., Any], *args: Any) -> None:
        """Call back in `process` after a delay: the way of messages into it."""
        self._schedule(_Handle(process, self.now + delay_s, callback, args, None))

    def _schedule(self, handle: _Handle) -> None:
        if not handle.process.is_dead and not self._is_closed:
            heapq.heappush(self._timers, (handle.time, next(self._numbers), handle))

    def kill(self, process: SimulatedProcess) -> None:
        """End a process at once: none of its code runs any more."""
        process.is_dead = True
        process.ready.clear()

    def run_until(self, is_done: Callable[[], bool], deadline: float) -> bool:
        """Run until `is_done()` or the deadline (loop time); return whether it is done."""
        asyncio._set_running_loop(self)
        woken, timers, draw, pop = self._woken, self._timers, self._rng.random, heapq.heappop
        try:
            while not is_done():
                while not woken:
                    # jump to the next timers, and make them ready
                    while timers and (timers[0][2].is_cancelled or timers[0][2].process.is_dead):
                        pop(timers)
                    if not timers or timers[0][0] > deadline:
                        self.now = max(self.now, deadline)
                        return is_done()
                    if timers[0][0] > self.now:
                        self.now = timers[0][0]
                    while timers and timers[0][0] <= self.now:
                        timer = pop(timers)[2]
                        process = timer.process
                        if not timer.is_cancelled and not process.is_dead:
                            process.ready.append(timer)
                            self._wake(process)
                process = woken.pop(int(draw() * len(woken))) if len(woken) > 1 else woken.pop()
                process.is_woken = False
                if not process.is_frozen:
                    self._run_turn(process)
                if self.steps > MOST_STEPS:
                    raise Stuck(f"{self.steps} callbacks ran until {self.now:.3f} s")
            return True
        finally:
            asyncio._set_running_loop(None)

    def _run_turn(self, process: SimulatedProcess) -> None:
        """Run what is ready in one process, as one turn of its own loop would."""
        self.current = process
        ready = process.ready
        for _ in range(len(ready)):
            if not ready:
                break  # it was killed
            handle = ready.popleft()
            if handle.is_cancelled:
                continue
            self.steps += 1
            try:
                if handle.context is None:
                    handle.callback(*handle.args)
                else:
                    handle.context.run(handle.callback, *handle.args)
            except Exception as error:
                self.call_exception_handler({"message": f"in {handle.callback}", "exception": error})
        self.current = self.network
        if ready:
            self._wake(process)

    def _wake(self, process: SimulatedProcess) -> None:
        if not process.is_woken:
            process.is_woken = True
            self._woken.append(process)

    def thaw(self, process: SimulatedProcess) -> None:
        """Let a frozen process go on."""
        process.is_frozen = False
        self._wake(process)

    def close(self) -> None:
        """Drop everything: no `finally` of what still runs has an effect any more."""
        self._is_closed = True
        self._timers.clear()
        hook, sys.unraisablehook = sys.unraisablehook, lambda _: None  # iterators that a killed process left open
        asyncio._set_running_loop(self)
        for process in self.processes:
            process.ready.clear()
            for task in process.tasks:
                if not task.done():
                    with suppress(BaseException):
                        task.get_coro().close()
            process.tasks.clear()
        asyncio._set_running_loop(None)
        sys.unraisablehook = hook

    # for asyncio

    def time(self) -> float:
        return self.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> _Handle:
        process = self.current
        handle = _Handle(process, self.now, callback, args, context or copy_context())
        if not process.is_dead and not self._is_closed:
            process.ready.append(handle)
            self._wake(process)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> _Handle:
        handle = _Handle(self.current, when, callback, args, context or copy_context())
        self._schedule(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> _Handle:
        return self.call_at(self.now + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> Any:
        if self._is_closed:
            coro.close()
            return self.create_future()
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.current.tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._is_closed:
            self.errors.append(context)


def set_result(answer: "asyncio.Future[Any]", result: Any) -> None:
    """Complete a future, unless it is complete: its task may have given up."""
    if not answer.done():
        answer.set_result(result)


@contextmanager
def virtual_time(loop: VirtualLoop, rng: Random) -> Iterator[None]:
    """Within, the clocks of the `time` module are those of the running process, and random secrets are seeded."""

    def wall() -> float:
        return BEGIN_S + loop.now + loop.current.clock_ahead_s

    rows = (
        (time, "time", wall),
        (time, "time_ns", lambda: round(wall() * 1e6) * 1000),
        (time, "monotonic", lambda: loop.now),
        (time, "perf_counter", lambda: loop.now),
        (secrets, "token_bytes", lambda size=32: rng.randbytes(size)),
        (secrets, "token_hex", lambda size=32: rng.randbytes(size).hex()),
        (random, "shuffle", rng.shuffle),
    )
    with replaced(rows):
        yield


@contextmanager
def replaced(rows: Iterable[tuple[ModuleType, str, Any]]) -> Iterator[None]:
    """Within, members of modules have other values."""
    with ExitStack() as undo:
        for module, name, value in rows:
            undo.callback(setattr, module, name, getattr(module, name))
            setattr(module, name, value)
        yield
