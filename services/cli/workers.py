"""Keeps several processes of a service running that share its port."""

import asyncio
import logging
import os
import signal
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from libs.local_stack.child_process import Reaper, restart_delay_s

logger = logging.getLogger(__name__)


async def run_workers(command: Sequence[str], environments: Sequence[Mapping[str, str]]) -> int:
    """Run `command` once with each of `environments`, added to this process's own, until SIGTERM or SIGINT.

    A worker that ends is started again. The signal is passed on to all; returns the highest exit code once they
    have drained. They end with this process, even by SIGKILL.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    reaper = Reaper()
    try:
        workers = [_Worker(at + 1, command, own, reaper, stopping) for at, own in enumerate(environments)]
        return max(await asyncio.gather(*(worker.run() for worker in workers)))
    finally:
        await asyncio.to_thread(reaper.close)


class _Worker:
    def __init__(
        self,
        number: int,
        command: Sequence[str],
        environment: Mapping[str, str],
        reaper: Reaper,
        stopping: asyncio.Event,
    ) -> None:
        self._number = number
        self._command = command
        self._environment = {**os.environ, **environment}
        self._reaper = reaper
        self._stopping = stopping

    async def run(self) -> int:
        """Keep one process running until the stop; return the exit code of the last."""
        code, delay_s = 0, 0.0
        while not self._stopping.is_set():
            born = time.monotonic()
            code = await self._run_once()
            if self._stopping.is_set():
                break
            delay_s = restart_delay_s(time.monotonic() - born, delay_s)
            logger.error("worker %d has ended with %d; it starts again in %g s", self._number, code, delay_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), delay_s)
        return code

    async def _run_once(self) -> int:
        """Start a process and wait for its end; at the stop, send SIGTERM to it."""
        # a session of its own: Ctrl-C reaches this process only
        process = await asyncio.create_subprocess_exec(
            *self._command, env=self._environment, start_new_session=True
        )
        self._reaper.watch(process.pid)
        stop = asyncio.create_task(self._stopping.wait())
        end = asyncio.create_task(process.wait())
        await asyncio.wait((stop, end), return_when=asyncio.FIRST_COMPLETED)
        if not end.done():
            with suppress(ProcessLookupError):
                process.terminate()
        stop.cancel()
        code = await end
        self._reaper.forget(process.pid)
        return abs(code)
