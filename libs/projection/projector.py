"""Main loop of a projection: keeps the assigned partitions' views at the head of the topic."""

import asyncio
import logging
import time
from collections.abc import Collection

from aiokafka.errors import KafkaError

from libs.kafka.errors import LogShortened
from libs.kafka.settings import KafkaSettings
from libs.projection.consumer import Connect, ConsumerSession, Membership
from libs.projection.group_consumer import connect as connect_to_group
from libs.projection.partition_worker import PartitionWorker
from libs.projection.projection_interface import Projection
from libs.projection.settings import Pace, ProjectorSettings
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.telemetry.tracing import Tracing
from libs.views.valkey.function_libraries import layouts

FIRST_BACKOFF_S = 0.2
LONGEST_BACKOFF_S = 5.0
LEAVE_S = 4.0
"""Seconds to wait for leaving the group; it continues in the background, so that no member remains. A stopping
process has more to do within its grace period."""

logger = logging.getLogger(__name__)


class Projector:
    """Folds the partitions that the group assigns to this process, and recovers from any fault by itself.

    Kafka's group only distributes partitions; a partition's position is stored in its view alone. So redelivered
    records, and calls in flight after a rebalance, are harmless.

    Projectors of other layouts form a group of their own: during an upgrade each folds the partitions whose live
    view has its layout. Where both fold a partition, the second one finds it folded.
    """

    def __init__(
        self,
        projection: Projection,
        kafka: KafkaSettings,
        settings: ProjectorSettings,
        pace: Pace,
        *,
        group: str | None = None,
        connect: Connect = connect_to_group,
        tracing: Tracing | None = None,
    ) -> None:
        [self.topic] = projection.topic.topics
        name = group or f"{self.topic.name}-projector-{layouts()}"
        self._membership = Membership(projection, kafka, settings, pace, name, connect, tracing)
        self._session: ConsumerSession | None = None
        self._leaving: set[asyncio.Task[None]] = set()

    @property
    def assigned(self) -> frozenset[int]:
        """Return the partitions that this process folds now."""
        return frozenset(self._session.folds) if self._session else frozenset()

    @property
    def folds(self) -> Collection[PartitionWorker]:
        """Workers of the assigned partitions: position, time of the last fold, start of a stall."""
        return list(self._session.folds.values()) if self._session else []

    @property
    def lag(self) -> int:
        """Return the lag in records over the assigned partitions, as of the last check."""
        ends = self._session.watch.ends if self._session else {}
        placed = ((fold.partition, fold.position) for fold in self.folds if fold.position is not None)
        return sum(max(0, ends.get(partition, 0) - position.offset) for partition, position in placed)

    async def check(self) -> None:
        """Check for health: raises `ViewsUnavailable` only if every partition's fold is stalled."""
        folds = self.folds
        if folds and all(fold.stalled_since is not None for fold in folds):
            raise ViewsUnavailable(f"none of {len(folds)} partitions can be processed", retry_after_s=1)

    async def run(self) -> None:
        """Fold until cancelled, then drain and leave the group.

        Raises `LogChanged` if the log is not the one that the view was folded from: folding stops until an
        operator decides. A view begins again if that log lost records.
        """
        backoff_s = FIRST_BACKOFF_S
        while True:
            begun = time.monotonic()
            session = self._session = ConsumerSession(self._membership)
            try:
                await session.run()
            except asyncio.CancelledError:
                await self._leave(session, drain=True)
                raise
            except (KafkaError, LogUnavailable, LogShortened, OSError, TimeoutError) as error:
                logger.warning("%s restarts: %s", self._membership.group, error or type(error).__name__)
            except BaseException:
                await self._leave(session, drain=False)
                raise
            await self._leave(session, drain=False)
            lived = time.monotonic() - begun > 2 * LONGEST_BACKOFF_S
            backoff_s = FIRST_BACKOFF_S if lived else min(backoff_s * 2, LONGEST_BACKOFF_S)
            await asyncio.sleep(backoff_s)

    async def _leave(self, session: ConsumerSession, *, drain: bool) -> None:
        task = asyncio.create_task(session.close(drain=drain))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
        await asyncio.wait({task}, timeout=LEAVE_S)
