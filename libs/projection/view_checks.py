"""Checks of the folded partitions' views: their freshness for readers, and their positions."""

import asyncio
import logging
from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

from libs.concurrency.tasks import every
from libs.contracts.log_records import Position
from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import LiveViews
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.views.generations.fresh_reader import FreshReader
from libs.views.valkey.partition_reads import Group, Mark

CHECK_S = 1.0
"""Seconds between comparisons of idle views."""
POLL_S = 0.2
"""Seconds until a restarted or emptied server is noticed."""
FOLDING_POLL_S = 0.02
"""Seconds until a view at the log's end is declared fresh."""

logger = logging.getLogger(__name__)


async def compare_views(live: LiveViews, folds: Mapping[int, PartitionWorker]) -> None:
    """Compare views with their idle workers until cancelled: they may be emptied or restored without traffic.

    A worker whose view differs, or cannot be read, checks it itself.
    """

    async def check(group: Group) -> None:
        for partition, mark in (await live.marks(group)).items():
            fold = folds.get(partition)
            if fold is not None and fold.idle and not (isinstance(mark, Mark) and mark.position == fold.position):
                fold.check_view()

    await every(CHECK_S, partial(live.groups, folds), check, "the positions of views cannot be read")


class _Goal(NamedTuple):
    """The log's end, read during the server run `run`."""

    run: str
    end: Position


class FreshnessChecker:
    """Declares the partitions in `folds` fresh; several checkers of one partition do no harm.

    It handles only placed partitions: their log is verified as the one that the view was folded from. The order of
    steps is the proof: read the server's run, then the log's end, then find the view at that end in that run.
    """

    def __init__(
        self, topic: Topic, views: FreshReader, reader: LogReader, folds: Mapping[int, PartitionWorker]
    ) -> None:
        self._topic = topic
        self._views = views
        self._reader = reader
        self._folds = folds
        self._goals: dict[int, _Goal] = {}

    async def run(self) -> None:
        """Run until cancelled. A partition whose server hangs delays no other."""
        what = f"{self._topic.name}: the freshness of views cannot be read"
        await every(lambda: FOLDING_POLL_S if self._goals else POLL_S, self._groups, self._check_group, what)

    def _groups(self) -> list[Group]:
        """Return the groups to check, and forget the goals of partitions that are folded elsewhere."""
        self._goals = {partition: goal for partition, goal in self._goals.items() if partition in self._folds}
        return self._views.groups(self._folds)

    async def _check_group(self, group: Group) -> None:
        stale = await self._views.stale(group)
        for partition in {*group}.difference(stale):
            self._goals.pop(partition, None)
        await asyncio.gather(*map(self._try_check, stale))

    async def _try_check(self, partition: int) -> None:
        try:
            await self._check(partition)
        except (LogUnavailable, ViewsUnavailable) as error:
            logger.debug("%s/%d: freshness is unknown: %s", self._topic.name, partition, error)
        except Exception:
            logger.exception("%s/%d: the check of the view's freshness failed", self._topic.name, partition)

    async def _check(self, partition: int) -> None:
        fold = self._folds.get(partition)
        if fold is None or fold.position is None:
            return
        log_id = fold.position.log_id
        state = await self._views.freshness(partition)
        goal = self._goals.pop(partition, None)
        if state.is_fresh:
            return
        if goal is None or goal.run != state.run or goal.end.log_id != log_id:
            ends = await self._reader.confirmed_ends(self._topic.name, [partition])
            goal = _Goal(state.run, Position(log_id, ends[partition]))
        if await self._views.declare(partition, goal.run, goal.end):
            logger.info("%s/%d is fresh at %d", self._topic.name, partition, goal.end.offset)
        else:
            self._goals[partition] = goal
