"""Handles the first and the second Ctrl-C."""

import asyncio
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupts:
    """Signal handler: the first interrupt requests an orderly end, the second cancels the creating task."""

    def __init__(self) -> None:
        self.requested = asyncio.Event()
        self._task = asyncio.current_task()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt)

    async def run_unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Return the result of `work`; None if an interrupt comes first, with the work cancelled."""
        task = asyncio.create_task(work)
        requested = asyncio.create_task(self.requested.wait())
        try:
            await asyncio.wait({task, requested}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            requested.cancel()
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
        return None if task.cancelled() else task.result()

    async def wait(self, timeout_s: float | None = None) -> None:
        """Wait for the next interrupt, at most `timeout_s`."""
        self.requested.clear()
        await self.wait_on(timeout_s)

    async def wait_on(self, timeout_s: float | None) -> None:
        """Wait for an interrupt like `wait`, but return at once if one has come already."""
        try:
            async with asyncio.timeout(timeout_s):
                await self.requested.wait()
        except TimeoutError:
            return

    def _interrupt(self) -> None:
        if self.requested.is_set() and self._task is not None:
            self._task.cancel()
        self.requested.set()
