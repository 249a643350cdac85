"""Ends doubt: shuts a partition's gate, appends a fence, and lets the fold of that fence open it again.

Doubt is a gate that does not stand open for the running Valkey (it restarted, failed over, or is new), and a
reservation that outlived its send's deadline although the fold has passed what the log held by then.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log import Appended
from libs.contracts.topics import Topic
from libs.metrics.table import FENCES, GATE_SHUT_SECONDS
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.tally.events import Fence
from libs.views.states import PartitionState
from libs.views.votes import VoteViews

POLL_S = 0.1
MARGIN_S = 1.0
"""Added to a send's deadline before its reservation is in doubt: the clocks of two processes are compared."""

logger = logging.getLogger(__name__)


class Log(Protocol):
    """What fencing needs of the log writer."""

    async def append(self, topic: str, partition: int, value: bytes) -> Appended: ...


@dataclass(frozen=True, slots=True)
class _Suspicion:
    """Reservations accepted up to `until` (us) are in doubt if they are still there once `end` is folded."""

    until: int
    end: int


class Fencer:
    """Watches the votes partitions that this projector folds. Several fencers of one partition do no harm."""

    def __init__(
        self,
        topic: Topic,
        views: VoteViews,
        log: Log,
        assigned: Callable[[], Collection[int]],
        end_offset: Callable[[int], Awaitable[int]],
        catalogue_is_folded: Callable[[], Awaitable[bool]],
        send_deadline_s: float,
    ) -> None:
        """`end_offset(partition)` asks the log; `catalogue_is_folded` tells whether the catalogue's views have
        come to the catalogue log's end as of the call. Both raise `LogUnavailable` or `ViewsUnavailable`."""
        self._topic = topic
        self._views = views
        self._log = log
        self._assigned = assigned
        self._end_offset = end_offset
        self._catalogue_is_folded = catalogue_is_folded
        self._doubt_us = int((send_deadline_s + MARGIN_S) * 1_000_000)
        self._suspicions: dict[int, _Suspicion] = {}
        self._fences: dict[int, tuple[Fence, int]] = {}
        self._turn_s = 0.0

    async def run(self) -> None:
        """Watch until cancelled; a server that is away is asked again at the next turn."""
        while True:
            began = time.monotonic()
            await asyncio.gather(*(self._look(partition) for partition in self._assigned()))
            await asyncio.sleep(POLL_S)
            self._turn_s = time.monotonic() - began

    async def _look(self, partition: int) -> None:
        try:
            state = await self._views.state(partition)
            if not state.open:
                GATE_SHUT_SECONDS.inc(self._turn_s)
            if not state.open or await self._in_doubt(partition, state):
                await self._fence(partition, state)
        except (LogUnavailable, ViewsUnavailable) as error:
            where = {"partition": partition}
            logger.warning("partition %d cannot be looked after now: %s", partition, error, extra=where)
        except Exception:
            logger.exception("looking after partition %d failed", partition, extra={"partition": partition})

    async def _in_doubt(self, partition: int, state: PartitionState) -> bool:
        """A fold that merely lags raises no doubt: what the log held when suspicion arose is folded first."""
        suspicion = self._suspicions.get(partition)
        oldest = state.oldest_pending
        if oldest is None or (suspicion is not None and oldest > suspicion.until):
            self._suspicions.pop(partition, None)
            suspicion = None
        if oldest is None or oldest > state.now - self._doubt_us:
            return False
        if suspicion is None:
            end = await self._end_offset(partition)
            self._suspicions[partition] = _Suspicion(state.now - self._doubt_us, end)
            return False
        return state.position.offset >= suspicion.end

    async def _fence(self, partition: int, state: PartitionState) -> None:
        """Shut, and append the fence once. The configuration in force went with the shutting, so the gate must
        not open before the catalogue's views are fresh: workers put in force what they read there."""
        fence = await self._views.shut(partition, state.incarnation)
        if fence is None or not await self._catalogue_is_folded():
            return
        sent, offset = self._fences.get(partition, (None, -1))
        if sent == fence and state.position.offset <= offset:
            return
        landed = await self._log.append(self._topic.name, partition, vote_codec.encode(fence))
        self._fences[partition] = fence, landed.offset
        FENCES.inc()
        self._suspicions.pop(partition, None)
        where = {"topic": self._topic.name, "partition": partition, "offset": landed.offset}
        said = "partition %d: fenced with %d at offset %d"
        logger.info(said, partition, fence.incarnation, landed.offset, extra=where)
