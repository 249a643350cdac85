"""Ends doubt: shuts a partition's gate, appends a fence, and lets the fold of that fence open it again.

Doubt is a gate that does not stand open for the running Valkey (it restarted, failed over, or is new), and a
reservation that outlived its send's deadline although the fold has passed what the log held by then. How long
that is, the fencer's own monotonic clock says: Valkey's may step.

A clock of a partition that is in the future, by Valkey's clock and by this process's alike, is in doubt as well:
Valkey's was wrong and was set right, and the partition's never goes back while its gate is open. Behind a fence,
with nothing pending, it may: an allowance period is told by its number, and no voter's begins earlier by it. One
of the two clocks alone proves nothing, and moves nothing; `tally status` and the alerts name what differs.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import Topic
from libs.metrics.table import FENCES, GATE_SHUT_SECONDS
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.tally.events import Fence
from libs.views.replies import PartitionState
from libs.views.votes import VoteViews

POLL_S = 0.1
MARGIN_S = 1.0
"""Added to a send's deadline before its reservation is in doubt: the sender's begins a little later."""
CATALOGUE_WAIT_S = 5.0
"""How long a gate stays shut for a catalogue that is being folded."""
CLOCK_TOLERANCE_S = 10.0
"""How far a partition's clock may be ahead of Valkey's and this process's: machines kept by NTP differ by less."""

logger = logging.getLogger(__name__)


class Log(Protocol):
    """What fencing needs of the log writer."""

    async def append(self, topic: str, partition: int, value: bytes) -> Appended: ...


@dataclass(slots=True)
class _Suspicion:
    """The reservation accepted at `oldest` (us) has been the oldest since `since` (monotonic, s).

    `end` is where the log ended once that was too long ago; None until then.
    """

    oldest: int
    since: float
    end: int | None = None


class _Wait(NamedTuple):
    """A fence that waits since `since` (monotonic, s) for the catalogue's views to come to `ends`."""

    fence: Fence
    ends: Mapping[int, int]
    since: float


class Fencer:
    """Watches the votes partitions that this projector folds. Several fencers of one partition do no harm."""

    def __init__(
        self,
        topic: Topic,
        views: VoteViews,
        log: Log,
        assigned: Callable[[], Collection[int]],
        end_offset: Callable[[int], Awaitable[int]],
        catalogue_ends: Callable[[], Awaitable[Mapping[int, int]]],
        catalogue_has: Callable[[Mapping[int, int]], Awaitable[bool]],
        send_deadline_s: float,
    ) -> None:
        """`end_offset(partition)` asks the votes' log, `catalogue_ends()` the catalogue's for all its partitions;
        `catalogue_has(ends)` tells whether its views have come there. They raise `LogUnavailable` or
        `ViewsUnavailable`."""
        self._topic = topic
        self._views = views
        self._log = log
        self._assigned = assigned
        self._end_offset = end_offset
        self._catalogue_ends = catalogue_ends
        self._catalogue_has = catalogue_has
        self._patience_s = send_deadline_s + MARGIN_S
        self._suspicions: dict[int, _Suspicion] = {}
        self._fences: dict[int, tuple[Fence, int]] = {}
        self._waits: dict[int, _Wait] = {}
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
            clock_is_wrong = _is_in_the_future(state)
            if not state.open or clock_is_wrong or await self._in_doubt(partition, state):
                await self._fence(partition, state, clock_is_wrong)
        except (LogUnavailable, ViewsUnavailable) as error:
            where = {"partition": partition}
            logger.warning("partition %d cannot be looked after now: %s", partition, error, extra=where)
        except Exception:
            logger.exception("looking after partition %d failed", partition, extra={"partition": partition})

    async def _in_doubt(self, partition: int, state: PartitionState) -> bool:
        """A fold that merely lags raises no doubt: what the log held when suspicion arose is folded first."""
        oldest, now = state.oldest_pending, time.monotonic()
        suspicion = self._suspicions.get(partition)
        if oldest is None:
            self._suspicions.pop(partition, None)
        elif suspicion is None or suspicion.oldest != oldest:
            self._suspicions[partition] = _Suspicion(oldest, now)
        elif suspicion.end is not None:
            return state.position.offset >= suspicion.end
        elif now - suspicion.since > self._patience_s:
            suspicion.end = await self._end_offset(partition)
        return False

    async def _fence(self, partition: int, state: PartitionState, clock_is_wrong: bool) -> None:
        """Shut, and append the fence once. The configurations in force go with the shutting.

        From then on workers put in force what they read in a catalogue's view that has all that its log held after
        the shutting (`need`): what was in force, or barred, is among that. So a PATCH that was answered holds, and
        where a partition of the catalogue cannot be folded, its contests alone wait for that. Only so that votes
        wait at the gate, instead of being refused, the others are waited for, too: `CATALOGUE_WAIT_S` at most.
        """
        fence = await self._views.shut(partition, state.incarnation, forget_clock=clock_is_wrong)
        if fence is None:
            return
        sent, offset = self._fences.get(partition, (None, -1))
        if sent == fence and state.position.offset <= offset:
            return
        wait = self._waits.get(partition)
        if wait is None or wait.fence != fence:
            wait = self._waits[partition] = _Wait(fence, await self._catalogue_ends(), time.monotonic())
        patient = time.monotonic() - wait.since < CATALOGUE_WAIT_S
        if patient and not await self._catalogue_has(wait.ends):
            return
        await self._views.need(partition, fence, wait.ends)
        landed = await self._log.append(self._topic.name, partition, vote_codec.encode(fence))
        self._fences[partition] = fence, landed.offset
        del self._waits[partition]
        FENCES.inc()
        self._suspicions.pop(partition, None)
        where = {"topic": self._topic.name, "partition": partition, "offset": landed.offset}
        said = "partition %d: fenced with %d at offset %d"
        logger.info(said, partition, fence.incarnation, landed.offset, extra=where)


def _is_in_the_future(state: PartitionState) -> bool:
    """Whether the partition's clock is ahead of Valkey's, and of this process's."""
    return state.clock > max(state.now, time.time_ns() // 1000) + CLOCK_TOLERANCE_S * 1_000_000
