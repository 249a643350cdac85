"""Forced exit of the process after a grace period."""

import asyncio
import logging
import os
import threading
from typing import Final

CUT_SHORT: Final = 1

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
