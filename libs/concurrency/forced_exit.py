"""Forced exit of a process that does not stop in time, or whose event loop hangs."""

import asyncio
import faulthandler
import logging
import os
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

CUT_SHORT: Final = 1
HANG_S: Final = 60.0
"""Seconds without a turn of the event loop after which a process ends. All work yields within a second, but on a
machine that swaps."""

logger = logging.getLogger(__name__)


class ForcedExit:
    """Ends the process `grace_s` after `schedule`, even if the event loop is blocked.

    Closing clients wait for servers without a timeout, also after `main` has returned.
    """

    def __init__(self, grace_s: float) -> None:
        self._grace_s = grace_s
        self.status = CUT_SHORT
        """Exit status; set it once only connections remain to be closed."""
        self._timer: threading.Timer | None = None

    def schedule(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(self._grace_s, self._end, [asyncio.get_running_loop()])
            self._timer.daemon = True
            self._timer.start()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = sorted({str(task.get_coro()) for task in asyncio.all_tasks(loop)})
        logger.warning("shutdown exceeded %.0f s: %s", self._grace_s, ", ".join(waiting) or "nothing waits")
        logging.shutdown()
        os._exit(self.status)


@asynccontextmanager
async def exit_if_hanging(hang_s: float = HANG_S) -> AsyncIterator[None]:
    """End the process, with the stacks of all threads on stderr, if its event loop makes no turn for `hang_s`.

    A hanging loop handles no signal either. Whatever starts the process again needs no probe of its own: Docker
    restarts what ends, and nothing that is only unhealthy.
    """

    async def postpone() -> None:
        while True:
            faulthandler.dump_traceback_later(hang_s, exit=True)
            await asyncio.sleep(hang_s / 10)

    postponing = asyncio.create_task(postpone())
    try:
        yield
    finally:
        postponing.cancel()
        faulthandler.cancel_dump_traceback_later()
