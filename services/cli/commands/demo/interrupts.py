"""Ctrl-C, once and twice."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupts:
    """The first one asks to come to an end, the second cancels the task that made this."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt)

    async def unless_asked(self, work: Coroutine[Any, Any, T]) -> T | None:
        """What `work` returns; None, the work cancelled, where an interrupt comes first."""
        task = asyncio.create_task(work)
        asked = asyncio.create_task(self.asked.wait())
        try:
            await asyncio.wait({task, asked}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            asked.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Returns with the next interrupt, or after `timeout_s`."""
        self.asked.clear()
        await self.wait_on(timeout_s)

    async def wait_on(self, timeout_s: float | None) -> None:
        """As `wait`, but an interrupt that has come already will do."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.asked.wait()
        except TimeoutError:
            return

    def _interrupt(self) -> None:
        if self.asked.is_set() and self._task is not None:
            self._task.cancel()
        self.asked.set()
