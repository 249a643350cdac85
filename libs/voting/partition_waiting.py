"""Waits for a partition's gate and fold: one poll for all waiting votes of the process."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from libs.contracts.vote_states import FoldProgress, VoteName, VoteState
from libs.tally.errors import ViewsUnavailable
from libs.views.votes.vote_views import VoteViews

POLL_S = 0.02
SLOWEST_POLL_S = 0.1
"""Interval between polls of a partition that makes no progress."""
LOOKUPS = 64
"""Votes looked up by one call: less than 1 ms of Valkey's time."""
REST = 4
"""Pause after look-ups, in multiples of their duration: so they use at most a fifth of Valkey's time."""
LONGEST_REST_S = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A vote that waits until the fold has decided it, or a fence has ended its fence epoch `incarnation`.

    With the log `offset` of its record, it is looked up only after the fold has passed it.
    """

    name: VoteName
    is_decided: Callable[[VoteState], bool]
    incarnation: int | None = None
    offset: int | None = None


@dataclass(eq=False, slots=True)
class _GateWaiter:
    since: FoldProgress | None
    answer: "asyncio.Future[FoldProgress | None]"


@dataclass(eq=False, slots=True)
class _VoteWaiter:
    vote: Undecided
    seen: FoldProgress | None
    """The latest progress at which it was undecided."""
    answer: "asyncio.Future[VoteState | None]"

    def is_due(self, progress: FoldProgress) -> bool:
        """Return whether a look-up at `progress` can find it decided."""
        if progress == self.seen:
            return False
        offset, incarnation = self.vote.offset, self.vote.incarnation
        if offset is None or incarnation is None or progress.ended(incarnation):
            return True
        return progress.position.offset > offset

    def update(self, state: VoteState) -> None:
        incarnation = self.vote.incarnation
        ended = incarnation is not None and state.progress.ended(incarnation)
        if ended or self.vote.is_decided(state):
            _answer(self.answer, state)
        else:
            self.seen = state.progress


class PartitionWaiting:
    """Polls each partition on which votes wait, and completes their futures.

    Without progress of the partition, a poll is one cheap call, regardless of the number of waiters. After
    progress, the votes that it can have decided are looked up, in batches and rate-limited.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._partitions: dict[int, _Polling] = {}

    def wait_for_gate(
        self, partition: int, since: FoldProgress | None, deadline: float
    ) -> "asyncio.Future[FoldProgress | None]":
        """Wait for a progress with an open gate, other than `since`; None at `deadline` (loop time)."""
        waiter = _GateWaiter(since, asyncio.get_running_loop().create_future())
        self._polling(partition).add(waiter, deadline)
        return waiter.answer

    def wait_for_vote(
        self, partition: int, vote: Undecided, deadline: float, since: FoldProgress | None = None
    ) -> "asyncio.Future[VoteState | None]":
        """Wait until the vote is decided, at a progress other than `since`; None at `deadline` (loop time)."""
        waiter = _VoteWaiter(vote, since, asyncio.get_running_loop().create_future())
        self._polling(partition).add(waiter, deadline)
        return waiter.answer

    def _polling(self, partition: int) -> "_Polling":
        polling = self._partitions.get(partition)
        if polling is None:
            polling = self._partitions[partition] = _Polling(self._views, partition)
        return polling


class _Polling:
    """The waiters of one partition, and the task that polls for them."""

    def __init__(self, views: VoteViews, partition: int) -> None:
        self._views = views
        self._partition = partition
        self._waiters: dict[_GateWaiter | _VoteWaiter, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._rests_until = 0.0

    def add(self, waiter: _GateWaiter | _VoteWaiter, deadline: float) -> None:
        answer = waiter.answer
        timer = asyncio.get_running_loop().call_at(deadline, _answer, answer, None)

        def remove(_: object) -> None:
            timer.cancel()
            self._waiters.pop(waiter, None)

        answer.add_done_callback(remove)
        self._waiters[waiter] = None
        if self._task is None:
            # it outlives the request that starts it, so it has a context of its own
            self._task = asyncio.create_task(self._poll(), context=Context())

    async def _poll(self) -> None:
        seen: FoldProgress | None = None
        pause = POLL_S
        try:
            while self._waiters:
                progress = seen
                try:
                    progress, _ = await self._views.lookups(self._partition, [])
                    self._wake_at_gate(progress)
                    await self._look_up(progress)
                except ViewsUnavailable:
                    pass  # the next poll tries again; each waiter has its own deadline
                except Exception:
                    logger.exception("polling partition %d failed", self._partition)
                pause = min(pause * 1.5, SLOWEST_POLL_S) if progress == seen else POLL_S
                seen = progress
                await asyncio.sleep(pause)
        finally:
            self._task = None

    def _wake_at_gate(self, progress: FoldProgress) -> None:
        for waiter in self._waiters:
            if isinstance(waiter, _GateWaiter) and progress.open and progress != waiter.since:
                _answer(waiter.answer, progress)

    async def _look_up(self, progress: FoldProgress) -> None:
        """Look up the votes that `progress` can have decided, then pause look-ups."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        if started < self._rests_until:
            return
        due = [each for each in self._waiters if isinstance(each, _VoteWaiter) and each.is_due(progress)]
        for at in range(0, len(due), LOOKUPS):
            batch = [waiter for waiter in due[at : at + LOOKUPS] if not waiter.answer.done()]
            _, states = await self._views.lookups(self._partition, [waiter.vote.name for waiter in batch])
            for waiter, state in zip(batch, states, strict=True):
                waiter.update(state)
        ended = loop.time()
        self._rests_until = ended + min(REST * (ended - started), LONGEST_REST_S)


def _answer(answer: "asyncio.Future[Any]", result: Any) -> None:
    if not answer.done():
        answer.set_result(result)
