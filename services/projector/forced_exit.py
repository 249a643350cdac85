"""Forced exit of the process after a grace period."""

import asyncio
import logging
import os
import threading
from typing import Final

GRACE_S: Final = 8.0
"""Seconds; `tally up` kills after 10 s, Kubernetes after 30. Unfinished work is safe: positions are stored in the
views, and events in the log."""
CUT_SHORT: Final = 1

logger = logging.getLogger(__name__)


class ForcedExit:
    """Ends the process `GRACE_S` after `schedule`, even if the event loop is blocked.

    Closing clients wait for servers without a timeout, also after `main` has returned.
    """

    def __init__(self) -> None:
        self.status = CUT_SHORT
        """Exit status; set it once only connections remain to be closed."""
        self._timer: threading.Timer | None = None

    def schedule(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(GRACE_S, self._end, [asyncio.get_running_loop()])
            self._timer.daemon = True
            self._timer.start()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = sorted({str(task.get_coro()) for task in asyncio.all_tasks(loop)})
        logger.warning("shutdown exceeded %.0f s: %s", GRACE_S, ", ".join(waiting) or "nothing waits")
        logging.shutdown()
        os._exit(self.status)
