"""Freshness of views: declares a view fresh once it has reached the log's end, read during its server's run."""

import asyncio
import logging
from collections.abc import Mapping
from typing import NamedTuple

from libs.contracts.log_records import Position
from libs.contracts.topics import Topic
from libs.kafka.reader import LogReader
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import FreshViews
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.views.fresh_reader import Freshness

POLL_S = 0.2
"""Seconds until a restarted or emptied server is noticed."""
FOLDING_POLL_S = 0.02
"""Seconds until a view at the log's end is declared fresh."""

logger = logging.getLogger(__name__)


class _Goal(NamedTuple):
    """The log's end, read during the server run `run`."""

    run: str
    end: Position


class FreshnessKeeper:
    """Declares the partitions in `folds` fresh; several keepers of one partition do no harm.

    It handles only placed partitions: their log is verified as the one that the view was folded from. The order of
    steps is the proof: read the server's run, then the log's end, then find the view at that end in that run.
    """

    def __init__(
        self, topic: Topic, views: FreshViews, reader: LogReader, folds: Mapping[int, PartitionWorker]
    ) -> None:
        self._topic = topic
        self._views = views
        self._reader = reader
        self._folds = folds
        self._goals: dict[int, _Goal] = {}

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll."""
        while True:
            try:
                await self._check()
            except (LogUnavailable, ViewsUnavailable) as error:
                logger.debug("%s: freshness is unknown: %s", self._topic.name, error)
            except Exception:
                logger.exception("%s: the check of the views' freshness failed", self._topic.name)
            await asyncio.sleep(FOLDING_POLL_S if self._goals else POLL_S)

    async def _check(self) -> None:
        placed = {fold.partition: fold.position.log_id for fold in self._folds.values() if fold.position}
        found = dict(zip(placed, await asyncio.gather(*map(self._views.freshness, placed)), strict=True))
        stale = {partition: state for partition, state in found.items() if not state.is_fresh}
        self._goals = {
            partition: goal
            for partition, goal in self._goals.items()
            if partition in stale and goal.run == stale[partition].run and goal.end.log_id == placed[partition]
        }
        await self._set_goals({p: state.run for p, state in stale.items() if p not in self._goals}, placed)
        reached = [partition for partition in stale if _has_reached(stale[partition], self._goals[partition].end)]
        await asyncio.gather(*map(self._declare, reached))

    async def _set_goals(self, runs: Mapping[int, str], log_ids: Mapping[int, str]) -> None:
        if runs:
            ends = await self._reader.end_offsets(self._topic.name, runs)
            self._goals |= {p: _Goal(run, Position(log_ids[p], ends[p])) for p, run in runs.items()}

    async def _declare(self, partition: int) -> None:
        goal = self._goals.pop(partition)
        if await self._views.declare(partition, goal.run, goal.end):
            logger.info("%s/%d is fresh at %d", self._topic.name, partition, goal.end.offset)


def _has_reached(state: Freshness, end: Position) -> bool:
    at = state.position
    return at is not None and at.log_id == end.log_id and at.offset >= end.offset
