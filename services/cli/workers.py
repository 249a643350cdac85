"""Keeps several processes of a service running that share its port."""

import asyncio
import logging
import signal
from collections.abc import Mapping, Sequence

from libs.local_stack.child_process import Process, Reaper, keep_running

DRAIN_S = 3600.0
"""Seconds that a worker may take to drain: whoever sends the signal decides when it has taken too long."""

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
        workers = [
            Process(f"worker {at}", command, reaper=reaper, environment=own, grace_s=DRAIN_S)
            for at, own in enumerate(environments, 1)
        ]
        for worker in workers:
            await worker.start()
        watches = [asyncio.create_task(_watch(worker)) for worker in workers]
        await stopping.wait()
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*(worker.stop() for worker in workers))
        return max(abs(worker.exit_code or 0) for worker in workers)
    finally:
        await asyncio.to_thread(reaper.close)


async def _watch(worker: Process) -> None:
    async def start(delay_s: float) -> None:
        logger.error("%s has ended with %d; it starts again in %g s", worker.name, worker.exit_code, delay_s)
        await asyncio.sleep(delay_s)
        await worker.start()

    await keep_running(start, lambda: worker.pid is None)
