"""Waiting for a partition's gate and fold: one poll for all votes of the process that wait there."""

import asyncio
import logging
from collections.abc import Callable
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from libs.tally.errors import ViewsUnavailable
from libs.views.replies import Progress, VoteName, VoteState
from libs.views.votes import VoteViews
from libs.voting.timeouts import POLL_S

SLOWEST_POLL_S = 0.1
"""Between two polls of a partition that makes no progress."""
LOOKUPS = 64
"""Votes looked up by one call: less than 1 ms of Valkey's time."""
REST = 4
"""Look-ups rest this many times as long as they took: they never use more than a fifth of Valkey."""
LONGEST_REST_S = 2.0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Undecided:
    """A vote that waits until `is_decided` by the fold, or until a fence has ended its `incarnation`.

    With an `offset`, where its record is in the log, it is not looked up before the fold has come there.
    """

    name: VoteName
    is_decided: Callable[[VoteState], bool]
    incarnation: int | None = None
    offset: int | None = None


@dataclass(eq=False, slots=True)
class _GateWaiter:
    since: Progress | None
    answer: "asyncio.Future[Progress | None]"


@dataclass(eq=False, slots=True)
class _VoteWaiter:
    vote: Undecided
    seen: Progress | None
    """The progress as of which it was undecided."""
    answer: "asyncio.Future[VoteState | None]"

    def is_due(self, progress: Progress) -> bool:
        """Whether a look-up may find it decided."""
        if progress == self.seen:
            return False
        offset, incarnation = self.vote.offset, self.vote.incarnation
        if offset is None or incarnation is None or progress.ended(incarnation):
            return True
        return progress.position.offset > offset

    def see(self, state: VoteState) -> None:
        incarnation = self.vote.incarnation
        ended = incarnation is not None and state.progress.ended(incarnation)
        if ended or self.vote.is_decided(state):
            _answer(self.answer, state)
        else:
            self.seen = state.progress


class PartitionWatch:
    """Wakes what waits for a partition, by one poll a partition, which runs only while something waits there.

    While the partition makes no progress, waiting costs one cheap call a poll, however many wait. With progress,
    those votes are looked up that it can have decided, in batches and paced.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._partitions: dict[int, _Polling] = {}

    def wait_for_gate(
        self, partition: int, since: Progress | None, deadline: float
    ) -> "asyncio.Future[Progress | None]":
        """The progress as of which the gate is open, another than `since`; None from `deadline` (loop time) on."""
        waiter = _GateWaiter(since, asyncio.get_running_loop().create_future())
        self._polling(partition).add(waiter, deadline)
        return waiter.answer

    def wait_for_vote(
        self, partition: int, vote: Undecided, deadline: float, since: Progress | None = None
    ) -> "asyncio.Future[VoteState | None]":
        """The vote's state once it is decided, as of another progress than `since`; None from `deadline` on."""
        waiter = _VoteWaiter(vote, since, asyncio.get_running_loop().create_future())
        self._polling(partition).add(waiter, deadline)
        return waiter.answer

    def _polling(self, partition: int) -> "_Polling":
        polling = self._partitions.get(partition)
        if polling is None:
            polling = self._partitions[partition] = _Polling(self._views, partition)
        return polling


class _Polling:
    """One partition: who waits there, and the task that polls for them."""

    def __init__(self, views: VoteViews, partition: int) -> None:
        self._views = views
        self._partition = partition
        self._waiters: dict[_GateWaiter | _VoteWaiter, None] = {}
        self._task: asyncio.Task[None] | None = None
        self._rests_until = 0.0

    def add(self, waiter: _GateWaiter | _VoteWaiter, deadline: float) -> None:
        answer = waiter.answer
        timer = asyncio.get_running_loop().call_at(deadline, _answer, answer, None)

        def leave(_: object) -> None:
            timer.cancel()
            self._waiters.pop(waiter, None)

        answer.add_done_callback(leave)
        self._waiters[waiter] = None
        if self._task is None:
            # it outlives the request that starts it
            self._task = asyncio.create_task(self._poll(), context=Context())

    async def _poll(self) -> None:
        seen: Progress | None = None
        pause = POLL_S
        try:
            while self._waiters:
                progress = seen
                try:
                    progress, _ = await self._views.lookups(self._partition, [])
                    self._wake_at_gate(progress)
                    await self._look_up(progress)
                except ViewsUnavailable:
                    pass  # asked again; whoever waits has a deadline of its own
                except Exception:
                    logger.exception("watching partition %d failed", self._partition)
                pause = min(pause * 1.5, SLOWEST_POLL_S) if progress == seen else POLL_S
                seen = progress
                await asyncio.sleep(pause)
        finally:
            self._task = None

    def _wake_at_gate(self, progress: Progress) -> None:
        for waiter in self._waiters:
            if isinstance(waiter, _GateWaiter) and progress.open and progress != waiter.since:
                _answer(waiter.answer, progress)

    async def _look_up(self, progress: Progress) -> None:
        """Look up the votes that `progress` can have decided; then none for a while."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        if began < self._rests_until:
            return
        due = [each for each in self._waiters if isinstance(each, _VoteWaiter) and each.is_due(progress)]
        for at in range(0, len(due), LOOKUPS):
            batch = [waiter for waiter in due[at : at + LOOKUPS] if not waiter.answer.done()]
            _, states = await self._views.lookups(self._partition, [waiter.vote.name for waiter in batch])
            for waiter, state in zip(batch, states, strict=True):
                waiter.see(state)
        ended = loop.time()
        self._rests_until = ended + min(REST * (ended - began), LONGEST_REST_S)


def _answer(answer: "asyncio.Future[Any]", result: Any) -> None:
    if not answer.done():
        answer.set_result(result)
