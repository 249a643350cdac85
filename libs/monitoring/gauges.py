"""Gauges of the views and the log, refreshed on scrapes, but not too often."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import Gauge

from libs.deployment.deployment import Deployment
from libs.monitoring.collector import StatusCollector
from libs.monitoring.status import PartitionStatus
from libs.tally.errors import TallyError
from libs.tally.voter_ledger import VoteStatus
from libs.telemetry import metrics as table
from libs.views.generations.generations import ProjectionName, State
from libs.views.votes.vote_views import VoteViews

PATIENCE_S: Final = 1.5
"""Seconds that a scrape waits for a refresh; the result of a longer one appears in the next scrape."""
REST: Final = 20
"""Pause before the next refresh, as a multiple of the last one's duration: at most 5 % load on the servers."""
SOONEST_S: Final = 0.5
"""Minimum pause in seconds, also after a failure, so that recovered servers are noticed."""
LATEST_S: Final = 30.0

OF_PARTITIONS: Final[Mapping[Gauge, str]] = {
    table.LOG_END: "end",
    table.VIEW_POSITION: "position",
    table.VIEW_LAG_RECORDS: "lag",
    table.VIEW_LAG_SECONDS: "lag_s",
    table.QUARANTINED_RECORDS: "quarantined",
}
"""Gauges of each topic's partitions, with the members of their status."""
OF_REPLAYS: Final = table.GENERATIONS, table.REPLAY_REMAINING_RECORDS, table.REPLAY_PROGRESS_RATIO
OF_VOTES: Final[Mapping[Gauge, str]] = {
    table.GATE_OPEN: "open",
    table.VOTES_PENDING: "pending",
    table.VOTES_PENDING_OLDEST_SECONDS: "oldest_pending_s",
    table.VALKEY_CLOCK_OFF_SECONDS: "valkey_clock_off_s",
    table.CLOCK_AHEAD_SECONDS: "clock_ahead_s",
    table.VOTES_FENCED: "fenced",
    table.FOLD_DUPLICATES: "duplicates",
}

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_gauges(deployment: Deployment) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """Yield a function that refreshes the gauges while the context is open."""
    collector = StatusCollector(deployment)
    topics = {projection: views.topic.name for projection, views in deployment.projections.items()}
    gauges = [
        _TopicGauges(collector, projection, topic)
        for projection, topic in topics.items()
        if projection is not ProjectionName.VOTES
    ]
    gauges.append(_VoteGauges(collector, topics[ProjectionName.VOTES], deployment.vote_views))

    async def refresh() -> None:
        await asyncio.gather(*(each.refresh() for each in gauges))

    try:
        yield refresh
    finally:
        for each in gauges:
            each.end()


class _TopicGauges:
    """Gauges of one topic and its views, independent of failures of others."""

    def __init__(self, collector: StatusCollector, projection: ProjectionName, topic: str) -> None:
        self._collector = collector
        self._projection = projection
        self._topic = topic
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Refresh, waiting at most `PATIENCE_S`; raises nothing. Concurrent or early scrapes share a refresh."""
        if (self._task is None or self._task.done()) and asyncio.get_running_loop().time() >= self._next:
            self._task = asyncio.create_task(self._collect())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PATIENCE_S)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _collect(self) -> None:
        """Collect and set the gauges; on failure remove them instead of keeping outdated values."""
        clock = asyncio.get_running_loop().time
        began, at = clock(), time.time()
        up = table.STANDING_UP.labels(self._topic)
        try:
            await self._show(await self._collector.all_rows(self._projection))
        except Exception as error:
            level = logging.WARNING if isinstance(error, TallyError) else logging.ERROR
            logger.log(level, "%s cannot be monitored: %r", self._topic, error)
            up.set(0)
            self._forget()
            rest = SOONEST_S
        else:
            up.set(1)
            table.STANDING_TIMESTAMP_SECONDS.labels(self._topic).set(at)
            rest = min(max(SOONEST_S, REST * (clock() - began)), LATEST_S)
        self._next = clock() + rest

    async def _show(self, rows: Sequence[PartitionStatus]) -> None:
        for row in rows:
            place = self._topic, row.partition
            for gauge, member in OF_PARTITIONS.items():
                gauge.labels(*place).set(getattr(row, member))
            table.VIEW_STALLED.labels(*place).set(row.stalled_since is not None)
        beside = [(row, one) for row in rows for one in row.generations]
        for state in State:
            if state is not State.LIVE:
                table.GENERATIONS.labels(self._topic, state).set(sum(one.state is state for _, one in beside))
        building = [(row, one) for row, one in beside if one.state is State.BUILDING]
        remaining = sum(max(0, one.behind) for _, one in building)
        all_of_it = sum(row.position for row, _ in building)
        table.REPLAY_REMAINING_RECORDS.labels(self._topic).set(remaining)
        table.REPLAY_PROGRESS_RATIO.labels(self._topic).set(1 - remaining / all_of_it if all_of_it else 1)

    def _forget(self) -> None:
        for gauge in (*OF_PARTITIONS, *OF_REPLAYS, table.VIEW_STALLED):
            gauge.remove_by_labels({"topic": self._topic})


class _VoteGauges(_TopicGauges):
    """Gauges of the votes topic: also gates and ledgers."""

    def __init__(self, collector: StatusCollector, topic: str, views: VoteViews) -> None:
        super().__init__(collector, ProjectionName.VOTES, topic)
        self._views = views

    async def _show(self, rows: Sequence[PartitionStatus]) -> None:
        ids = await asyncio.gather(*(self._views.ids(row.partition) for row in rows))
        await super()._show(rows)
        for row, by_status in zip(rows, ids, strict=True):
            for gauge, member in OF_VOTES.items():
                gauge.labels(row.partition).set(getattr(row, member) or 0)
            for status in VoteStatus:
                table.VOTES.labels(row.partition, status.name.lower()).set(by_status[status])

    def _forget(self) -> None:
        super()._forget()
        for gauge in (*OF_VOTES, table.VOTES):
            gauge.clear()
