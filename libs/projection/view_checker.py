"""Checks of idle partitions' views: they may be emptied or restored to an older state without traffic."""

import asyncio
import logging
from collections.abc import Mapping

from libs.concurrency.tasks import KeyedTasks
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import LiveViews
from libs.views.valkey.partition_reads import Group, Mark

CHECK_S = 1.0
"""Seconds between checks."""

logger = logging.getLogger(__name__)


class ViewChecker:
    """Compares the views' positions with those of their idle workers, by one call for each server.

    A worker whose view differs, or cannot be read, checks it itself.
    """

    def __init__(self, live: LiveViews, folds: Mapping[int, PartitionWorker]) -> None:
        self._live = live
        self._folds = folds

    async def run(self) -> None:
        """Run until cancelled. A server that hangs delays no partitions of others."""
        checks = KeyedTasks(self._check)
        try:
            while True:
                for group in self._live.groups(self._folds):
                    checks.start(group)
                await asyncio.sleep(CHECK_S)
        finally:
            await checks.cancel()

    async def _check(self, group: Group) -> None:
        try:
            marks = await self._live.marks(group)
        except Exception:
            logger.exception("the positions of views cannot be read")
            return
        for partition, mark in marks.items():
            fold = self._folds.get(partition)
            if fold is not None and fold.idle and not (isinstance(mark, Mark) and mark.position == fold.position):
                fold.check_view()
