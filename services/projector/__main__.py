"""`python -m services.projector`: folds until SIGTERM or SIGINT, then drains and exits 0, or 1 if that hangs."""

import gc

if __name__ == "__main__":
    gc.disable()  # until all is imported: collections took a tenth of that

import asyncio
import logging
import signal
import sys
from typing import Final

import uvloop

from libs.concurrency.forced_exit import ForcedExit, exit_if_hanging
from libs.telemetry.environment_settings import read_settings
from libs.telemetry.logs import configure_logs
from libs.telemetry.tracing import open_tracing
from libs.web.server.metrics import measured_loop
from services.projector.app import run
from services.projector.settings import Settings
from services.projector.supervision import UNSERVABLE

NOTHING_TO_SERVE: Final = 3
"""Exit status if the log or the object store is not as required: a restart does not help."""

GRACE_S: Final = 8.0
"""Seconds from a signal to a forced exit; `tally up` kills after 10 s, Kubernetes after 30. Unfinished work is
safe: positions are stored in the views, and events in the log."""

logger = logging.getLogger(__name__)


async def main(settings: Settings) -> int:
    # Garbage collection of records in flight is useless: it took a third of the time of a large fetch.
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)
    gc.enable()
    forced_exit = ForcedExit(GRACE_S)

    def end() -> None:
        forced_exit.schedule()
        task.cancel()

    with open_tracing(settings, "projector") as tracing:
        task = asyncio.create_task(run(settings, tracing))
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, end)
        async with exit_if_hanging(), measured_loop():
            await asyncio.wait([task])
    if task.cancelled():
        logger.info("drained")
        forced_exit.status = 0
        return 0
    unservable = False
    try:
        task.result()
    except* UNSERVABLE as stopped:
        unservable = True
        for error in stopped.exceptions:
            logger.critical("%s", error)
    return NOTHING_TO_SERVE if unservable else 0


if __name__ == "__main__":
    settings = read_settings(Settings)
    configure_logs(settings)
    sys.exit(uvloop.run(main(settings)))
