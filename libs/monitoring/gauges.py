"""What the views and the log say, into the metrics: read when they are asked for, and not too often."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from libs.kafka.reader import LogReader
from libs.kafka.settings import KafkaSettings
from libs.metrics import table
from libs.monitoring.collector import StatusCollector
from libs.monitoring.projection_names import Fold, folds_of
from libs.monitoring.status import Row
from libs.storage.store import Store
from libs.tally.errors import TallyError
from libs.tally.voter_ledger import VoteStatus
from libs.views.client import Valkey
from libs.views.generations import State
from libs.views.votes import VoteViews

PATIENCE_S: Final = 1.5
"""How long a scrape waits for a look; one that takes longer is seen by the next."""
REST: Final = 20
"""The next look comes after as many times what the last one took: it costs the servers 5 % at most."""
SOONEST_S: Final = 0.5
"""Also after a look that failed: once the servers are back, that is to be seen."""
LATEST_S: Final = 30.0

OF_TOPICS: Final = (
    table.LOG_END,
    table.VIEW_POSITION,
    table.VIEW_LAG_RECORDS,
    table.VIEW_LAG_SECONDS,
    table.VIEW_STALLED,
    table.QUARANTINED_RECORDS,
    table.GENERATIONS,
    table.REPLAY_REMAINING_RECORDS,
    table.REPLAY_PROGRESS_RATIO,
)
OF_VOTES: Final = (
    table.GATE_OPEN,
    table.VOTES,
    table.VOTES_PENDING,
    table.VOTES_PENDING_OLDEST_SECONDS,
    table.VALKEY_CLOCK_OFF_SECONDS,
    table.CLOCK_AHEAD_SECONDS,
    table.VOTES_FENCED,
    table.FOLD_DUPLICATES,
)

logger = logging.getLogger(__name__)


@asynccontextmanager
async def open_gauges(
    kafka: KafkaSettings, valkey: Valkey, store: Store, namespace: str, partitions: int
) -> AsyncIterator[Callable[[], Awaitable[None]]]:
    """How to bring the gauges up to date, for as long as the context is open."""
    async with LogReader(kafka) as reader:
        collector = StatusCollector(reader, valkey, store, namespace, partitions)
        topics = {fold: views.topic.name for fold, views in folds_of(valkey, namespace, partitions).items()}
        looks = [_Look(collector, fold, topic) for fold, topic in topics.items() if fold is not Fold.VOTES]
        looks.append(_LookAtVotes(collector, topics[Fold.VOTES], VoteViews(valkey, namespace), partitions))

        async def refresh() -> None:
            await asyncio.gather(*(look.refresh() for look in looks))

        try:
            yield refresh
        finally:
            for look in looks:
                look.end()


class _Look:
    """At one topic and its views: what is wrong with another hides nothing of this one."""

    def __init__(self, collector: StatusCollector, fold: Fold, topic: str) -> None:
        self._collector = collector
        self._fold = fold
        self._topic = topic
        self._next = 0.0
        self._task: asyncio.Task[None] | None = None

    async def refresh(self) -> None:
        """Raises nothing, and waits `PATIENCE_S` at most. Scrapes that come at once, or soon, share a look."""
        if (self._task is None or self._task.done()) and asyncio.get_running_loop().time() >= self._next:
            self._task = asyncio.create_task(self._look())
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PATIENCE_S)

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _look(self) -> None:
        """Where it fails the gauges say nothing, rather than what was so once."""
        clock = asyncio.get_running_loop().time
        began, at = clock(), time.time()
        up = table.STANDING_UP.labels(self._topic)
        try:
            await self._show(await self._collector.rows(self._fold))
        except Exception as error:
            level = logging.WARNING if isinstance(error, TallyError) else logging.ERROR
            logger.log(level, "%s cannot be looked at: %r", self._topic, error)
            up.set(0)
            self._forget()
            rest = SOONEST_S
        else:
            up.set(1)
            table.STANDING_TIMESTAMP_SECONDS.labels(self._topic).set(at)
            rest = min(max(SOONEST_S, REST * (clock() - began)), LATEST_S)
        self._next = clock() + rest

    async def _show(self, rows: Sequence[Row]) -> None:
        for row in rows:
            place = self._topic, row.partition
            table.LOG_END.labels(*place).set(row.end)
            table.VIEW_POSITION.labels(*place).set(row.position)
            table.VIEW_LAG_RECORDS.labels(*place).set(row.lag)
            table.VIEW_LAG_SECONDS.labels(*place).set(row.lag_s)
            table.VIEW_STALLED.labels(*place).set(row.stalled_since is not None)
            table.QUARANTINED_RECORDS.labels(*place).set(row.quarantined)
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
        for gauge in OF_TOPICS:
            gauge.remove_by_labels({"topic": self._topic})


class _LookAtVotes(_Look):
    """Also at gates and ledgers."""

    def __init__(self, collector: StatusCollector, topic: str, views: VoteViews, partitions: int) -> None:
        super().__init__(collector, Fold.VOTES, topic)
        self._views = views
        self._partitions = range(partitions)

    async def _show(self, rows: Sequence[Row]) -> None:
        ids = await asyncio.gather(*map(self._views.ids, self._partitions))
        await super()._show(rows)
        for row, by_status in zip(rows, ids, strict=True):
            partition, ledger = row.partition, row.ledger
            assert ledger is not None
            table.GATE_OPEN.labels(partition).set(ledger.open)
            table.VOTES_PENDING.labels(partition).set(ledger.pending)
            table.VOTES_PENDING_OLDEST_SECONDS.labels(partition).set(ledger.oldest_pending_s or 0)
            table.VALKEY_CLOCK_OFF_SECONDS.labels(partition).set(ledger.valkey_clock_off_s)
            table.CLOCK_AHEAD_SECONDS.labels(partition).set(ledger.clock_ahead_s)
            table.VOTES_FENCED.labels(partition).set(ledger.fenced)
            table.FOLD_DUPLICATES.labels(partition).set(ledger.duplicates)
            for status in VoteStatus:
                table.VOTES.labels(partition, status.name.lower()).set(by_status[status])

    def _forget(self) -> None:
        super()._forget()
        for gauge in OF_VOTES:
            gauge.clear()
