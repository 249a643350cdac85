"""Checks of idle partitions' views: they may be emptied or restored to an older state without traffic."""

from collections.abc import Mapping
from functools import partial

from libs.concurrency.tasks import every
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import LiveViews
from libs.views.valkey.partition_reads import Group, Mark

CHECK_S = 1.0
"""Seconds between checks."""


class ViewChecker:
    """Compares the views' positions with those of their idle workers, by one call for each server.

    A worker whose view differs, or cannot be read, checks it itself.
    """

    def __init__(self, live: LiveViews, folds: Mapping[int, PartitionWorker]) -> None:
        self._live = live
        self._folds = folds

    async def run(self) -> None:
        """Run until cancelled. A server that hangs delays no partitions of others."""
        groups = partial(self._live.groups, self._folds)
        await every(CHECK_S, groups, self._check, "the positions of views cannot be read")

    async def _check(self, group: Group) -> None:
        for partition, mark in (await self._live.marks(group)).items():
            fold = self._folds.get(partition)
            if fold is not None and fold.idle and not (isinstance(mark, Mark) and mark.position == fold.position):
                fold.check_view()
