"""Reservations and confirmations of concurrent requests, gathered into few calls."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from libs.metrics.table import RESERVE_SECONDS
from libs.tally.errors import ViewsUnavailable
from libs.tally.reservations import Answer, Granted, Request
from libs.views.votes import VoteViews
from libs.voting.vote_attempt import RECOVERING

CALL_REQUESTS = 64
"""Requests decided by one call: about 1 ms of Valkey's time."""
SWEEP_S = 0.1
"""How often deadlines are looked at; one may be answered this much late."""


class _Queued(NamedTuple):
    """One request, who waits for its answer, and until when (by the loop's clock)."""

    request: Request
    answer: "asyncio.Future[Answer]"
    deadline: float


class _Lane:
    """One partition: what waits, and the one call that is under way."""

    __slots__ = ("flight", "partition", "queue", "worker")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.queue: deque[_Queued] = deque()
        self.flight: list[_Queued] = []
        self.worker: asyncio.Task[None] | None = None


class ReservationBatcher:
    """One call a partition is under way at a time; what comes meanwhile goes with the next, in order.

    Each request is answered by its deadline, also where the calls before its own hang.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._lanes: dict[int, _Lane] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._releases: set[asyncio.Task[None]] = set()

    def reserve(self, partition: int, request: Request, deadline: float) -> "asyncio.Future[Answer]":
        """Requests for one partition are decided in the order of these calls.

        Raises `ViewsUnavailable`, at `deadline` (loop time) too. What is granted later is given back.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        lane = self._lanes.get(partition)
        if lane is None:
            lane = self._lanes[partition] = _Lane(partition)
        lane.queue.append(_Queued(request, future, deadline))
        if lane.worker is None:
            lane.worker = asyncio.ensure_future(self._work(lane))
        if self._sweeper is None:
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)
        return future

    async def _work(self, lane: _Lane) -> None:
        try:
            while lane.queue:
                batch = lane.flight = [lane.queue.popleft() for _ in range(min(CALL_REQUESTS, len(lane.queue)))]
                try:
                    await self._decide(lane.partition, batch)
                except Exception as error:
                    for queued in batch:
                        if not queued.answer.done():
                            queued.answer.set_exception(error)
        finally:
            lane.flight, lane.worker = [], None

    async def _decide(self, partition: int, batch: Sequence[_Queued]) -> None:
        began = time.perf_counter()
        answers = await self._views.reserve(partition, [queued.request for queued in batch])
        RESERVE_SECONDS.observe(time.perf_counter() - began)
        for (request, future, _), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
            elif isinstance(answer, Granted):
                release = asyncio.ensure_future(self._give_back(partition, request, answer))
                self._releases.add(release)
                release.add_done_callback(self._releases.discard)

    async def _give_back(self, partition: int, request: Request, granted: Granted) -> None:
        """End an attempt that nobody waits for any more, so nobody records it."""
        with suppress(ViewsUnavailable):  # a reservation that stays is in doubt, and a fence ends it
            await self._views.release(
                partition, request.contest.key, request.voter, request.vote_id, granted.incarnation
            )

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer what is overdue. Requests that still wait are never sent; of the others nobody knows."""
        now = loop.time()
        busy = [lane for lane in self._lanes.values() if lane.worker is not None]
        for lane in busy:
            for queued in (*lane.flight, *lane.queue):
                if queued.deadline <= now and not queued.answer.done():
                    queued.answer.set_exception(ViewsUnavailable(RECOVERING, retry_after_s=1))
            # in place: the worker goes on with this very queue
            live = [queued for queued in lane.queue if not queued.answer.done()]
            if len(live) < len(lane.queue):
                lane.queue.clear()
                lane.queue.extend(live)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None


class ConfirmationBatcher:
    """Asks once a tick and partition whether the gate still stands as it did when a vote was reserved."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._waiting: dict[tuple[int, int], list[asyncio.Future[bool]]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def confirm(self, partition: int, incarnation: int) -> "asyncio.Future[bool]":
        """One answer for all whose record was acknowledged before the call departs. Raises `ViewsUnavailable`."""
        future: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        key = partition, incarnation
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [future]
            task = asyncio.ensure_future(self._ask(key))
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        else:
            waiting.append(future)
        return future

    async def _ask(self, key: tuple[int, int]) -> None:
        waiting = self._waiting.pop(key)
        try:
            stands = await self._views.confirm(*key)
        except Exception as error:
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(stands)
