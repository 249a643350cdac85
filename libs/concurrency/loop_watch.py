"""Watches the turns of an event loop: all else waits while one lasts."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

BEAT_S: Final = 0.05
STALL_S: Final = 0.1
"""CPU time of a turn that is reported."""

Found = Callable[[float, str], None]
"""Takes the seconds of a long turn, and the name of the task that ran in it, "" if it was not seen."""
Name = Callable[["asyncio.Task[Any] | None"], str]
"""Names the task that runs, None outside of one; called by another thread."""


@asynccontextmanager
async def watch_turns(found: Found, name: Name) -> AsyncIterator[None]:
    """Call `found` after each turn of the running loop that takes more than `STALL_S`.

    A turn's time is the thread's CPU time in it: that the machine has other work is no fault of a request.
    """
    watch = _LoopWatch(asyncio.get_running_loop(), found, name)
    thread = threading.Thread(target=watch.look, name="loop-watch", daemon=True)
    watch.beat()
    thread.start()
    try:
        yield
    finally:
        watch.end()
        await asyncio.to_thread(thread.join)


class _LoopWatch:
    """The loop beats, and a thread looks at what runs while a beat is late."""

    def __init__(self, loop: asyncio.AbstractEventLoop, found: Found, name: Name) -> None:
        self._loop = loop
        self._found = found
        self._name = name
        self._ended = threading.Event()
        self._due, self._cpu_s = time.monotonic(), time.thread_time()
        self._seen = ""
        self._timer: asyncio.TimerHandle | None = None

    def beat(self) -> None:
        now, cpu_s = time.monotonic(), time.thread_time()
        stall_s, seen = min(now - self._due, cpu_s - self._cpu_s), self._seen
        self._due, self._cpu_s, self._seen = now + BEAT_S, cpu_s, ""
        self._timer = self._loop.call_later(BEAT_S, self.beat)
        if stall_s > STALL_S:
            self._found(stall_s, seen)

    def look(self) -> None:
        while not self._ended.wait(BEAT_S):
            if not self._seen and time.monotonic() - self._due > STALL_S / 2:
                self._seen = self._name(asyncio.current_task(self._loop))

    def end(self) -> None:
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()
