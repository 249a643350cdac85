"""The end of the process, at the latest some seconds after it was asked to end."""

import asyncio
import logging
import os
import threading
from typing import Final

GRACE_S: Final = 8.0
"""`tally up` kills after 10 s, Kubernetes after 30. Nothing depends on what is left undone: the views say how far
they are, and the log what is in it."""
CUT_SHORT: Final = 1

logger = logging.getLogger(__name__)


class Grace:
    """Ends the process `GRACE_S` after `begin`, whatever the event loop waits for then, or does.

    Clients that close wait for servers without a limit, also after `main` has returned.
    """

    def __init__(self) -> None:
        self.status = CUT_SHORT
        """Exit status then; to be set once all is done but for closing connections."""
        self._timer: threading.Timer | None = None

    def begin(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(GRACE_S, self._end, [asyncio.get_running_loop()])
            self._timer.daemon = True
            self._timer.start()

    def _end(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = sorted({str(task.get_coro()) for task in asyncio.all_tasks(loop)})
        logger.warning("not all was closed within %.0f s: %s", GRACE_S, ", ".join(waiting) or "nothing waits")
        logging.shutdown()
        os._exit(self.status)
