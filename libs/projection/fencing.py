"""Fencing of votes partitions in doubt: closes the gate and appends a fence, whose fold reopens the gate.

A partition is in doubt if its gate is not open for the running Valkey (restarted, failed over, or new), or if a
reservation outlived its append's deadline although the fold has passed the log's end of that time. The fencer's
monotonic clock measures that, as Valkey's clock may step.

A partition whose clock is ahead of both Valkey's and this process's clock is in doubt as well: Valkey's clock was
wrong and was corrected, and the partition's never goes back while its gate is open. After a fence, with nothing
pending, it may: allowance periods are numbered, so no voter's starts earlier. A difference to only one of the two
clocks proves nothing and changes nothing; `tally status` and the alerts report it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from libs.concurrency.tasks import KeyedTasks, every
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appender
from libs.contracts.topics import Log, Topic
from libs.kafka.reader import LogReader
from libs.tally.errors import LogUnavailable, ViewsUnavailable
from libs.tally.events import Fence
from libs.telemetry.metrics import FENCES, GATE_SHUT_SECONDS
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.partition_reads import Group
from libs.views.votes.reply_types import Doubt, PartitionState
from libs.views.votes.vote_views import VoteViews

POLL_S = 0.1
MARGIN_S = 1.0
"""Added to an append's deadline before its reservation is in doubt: the deadline starts after the reservation."""
CATALOGUE_WAIT_S = 5.0
"""Seconds that a gate stays closed to wait for the catalogue's fold."""
CLOCK_TOLERANCE_S = 10.0
"""Maximum seconds that a partition's clock may be ahead of Valkey's and this process's: NTP differs by less."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Suspicion:
    """The reservation accepted at `oldest` (µs) has been the oldest since `since` (monotonic, s).

    `end` is the log's end offset when that became too long; None until then.
    """

    oldest: int
    since: float
    end: int | None = None


class _Wait(NamedTuple):
    """A fence waiting since `since` (monotonic, s) for the catalogue's views to reach `ends`."""

    fence: Fence
    ends: Mapping[int, int]
    since: float


def must_fence(state: PartitionState, now: int, suspected_end: int | None) -> bool:
    """Return whether a partition is in doubt at `now` (us, of this process).

    `suspected_end` is the log's end when a reservation was found overdue, None if none is. A lagging fold is no
    doubt: it first reaches that end.
    """
    is_overdue = suspected_end is not None and state.position.offset >= suspected_end
    return not state.open or is_in_the_future(state, now) or is_overdue


def is_in_the_future(state: PartitionState, now: int) -> bool:
    """Return whether the partition's clock is ahead of both Valkey's and this process's (`now`, us)."""
    return state.clock > max(state.now, now) + CLOCK_TOLERANCE_S * 1_000_000


def is_in_flight(fence: Fence, state: PartitionState, sent: tuple[Fence, int] | None) -> bool:
    """Return whether the fence was appended at an offset that is not folded yet."""
    return sent is not None and sent[0] == fence and state.position.offset <= sent[1]


class CatalogueProgress:
    """Reads end offsets of the catalogue's log and positions of its view.

    Its methods raise `LogUnavailable` and `ViewsUnavailable`.
    """

    def __init__(self, reader: LogReader, topic: Topic, views: CatalogueViews) -> None:
        self._reader = reader
        self._topic = topic
        self._views = views

    async def ends(self, partitions: Collection[int] | None = None) -> Mapping[int, int]:
        """Return the log's end offsets, by default of all partitions."""
        some = self._topic.numbers if partitions is None else partitions
        return await self._reader.confirmed_ends(self._topic.name, some)

    async def has(self, ends: Mapping[int, int]) -> bool:
        """Return whether the view has folded each partition up to its offset in `ends`."""
        positions = await asyncio.gather(*map(self._views.position, ends))
        return all(at is not None and at.offset >= end for at, end in zip(positions, ends.values(), strict=True))

    async def has_folded_account(self, account: str) -> bool:
        """Return whether the view has folded all that the log now has of an account's partition."""
        return await self.has(await self.ends([self._topic.partition_of(account)]))


class Fencer:
    """Monitors the votes partitions that this projector folds. Several fencers of one partition do no harm."""

    def __init__(
        self,
        topic: Log,
        views: VoteViews,
        log: Appender,
        reader: LogReader,
        catalogue: CatalogueProgress,
        assigned: Callable[[], Collection[int]],
        send_deadline_s: float,
    ) -> None:
        self._topic = topic
        self._views = views
        self._log = log
        self._assigned = assigned
        self._reader = reader
        self._catalogue = catalogue
        self._doubts = views.watch_doubts()
        self._patience_s = send_deadline_s + MARGIN_S
        self._suspicions: dict[int, _Suspicion] = {}
        self._fences: dict[int, tuple[Fence, int]] = {}
        self._waits: dict[int, _Wait] = {}

    async def run(self) -> None:
        """Run until cancelled; retries unavailable servers at the next poll.

        A partition whose server hangs delays no other: each is checked again once its own check has ended.
        """
        checks = KeyedTasks(self._check)
        read = partial(self._read_doubts, checks)
        try:
            await every(
                POLL_S, lambda: self._doubts.groups(self._assigned()), read, "partitions cannot be checked"
            )
        finally:
            await checks.cancel()

    async def _read_doubts(self, checks: KeyedTasks[int], group: Group) -> None:
        """Start the checks of those of a server's partitions that need one, or cannot be read with the others."""
        doubts = await self._doubts.read(group)
        for partition, suspicion in self._suspicions.items():
            if suspicion.end is not None and partition in group:
                checks.start(partition)
        for partition, doubt in doubts.items():
            if not isinstance(doubt, Doubt) or doubt.is_sure or self._is_overdue(partition, doubt.oldest_pending):
                checks.start(partition)

    async def _check(self, partition: int) -> None:
        try:
            state = await self._views.state(partition)
            if not state.open:
                GATE_SHUT_SECONDS.inc(POLL_S)
            is_overdue = state.open and self._is_overdue(partition, state.oldest_pending)
            if is_overdue and self._suspicions[partition].end is None:
                ends = await self._reader.end_offsets(self._topic.name, [partition])
                self._suspicions[partition].end = ends[partition]
            if must_fence(state, time.time_ns() // 1000, self._suspicions[partition].end if is_overdue else None):
                await self._fence(partition, state)
        except (LogUnavailable, ViewsUnavailable) as error:
            where = {"partition": partition}
            logger.warning("partition %d cannot be checked now: %s", partition, error, extra=where)
        except Exception:
            logger.exception("the check of partition %d failed", partition, extra={"partition": partition})

    def _is_overdue(self, partition: int, oldest: int | None) -> bool:
        """Note the oldest pending reservation; return whether it has been the oldest for too long."""
        now, suspicion = time.monotonic(), self._suspicions.get(partition)
        if oldest is None:
            self._suspicions.pop(partition, None)
        elif suspicion is None or suspicion.oldest != oldest:
            self._suspicions[partition] = _Suspicion(oldest, now)
        else:
            return suspicion.end is not None or now - suspicion.since > self._patience_s
        return False

    async def _fence(self, partition: int, state: PartitionState) -> None:
        """Close the gate, and append the fence once. Closing clears the configurations in force.

        Afterwards workers put a configuration in force only from a catalogue view that has reached the log's end
        as of the closing (`need`), which includes everything in force or barred before. So an answered PATCH
        holds, and if a catalogue partition cannot be folded, only its contests wait. The fence also waits for all
        partitions, at most `CATALOGUE_WAIT_S`, so that votes wait at the gate instead of being refused.
        """
        if any(not lost.is_told for lost in (await self._views.generations.read(partition)).lost):
            return  # what the log tells of a loss comes before the votes that follow it
        forget_clock = is_in_the_future(state, time.time_ns() // 1000)
        fence = await self._views.shut(partition, state.incarnation, forget_clock=forget_clock)
        if fence is None:
            return
        if is_in_flight(fence, state, self._fences.get(partition)):
            return
        wait = self._waits.get(partition)
        if wait is None or wait.fence != fence:
            wait = self._waits[partition] = _Wait(fence, await self._catalogue.ends(), time.monotonic())
        patient = time.monotonic() - wait.since < CATALOGUE_WAIT_S
        if patient and not await self._catalogue.has(wait.ends):
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
