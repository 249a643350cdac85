"""Batching of concurrent requests' reservations and confirmations into few calls to Valkey."""

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
"""Interval of the deadline checks: a timeout may be reported this much late."""


class _Queued(NamedTuple):
    """One request with the future of its answer and its deadline (loop time)."""

    request: Request
    answer: "asyncio.Future[Answer]"
    deadline: float


class _Lane:
    """One partition's queue of requests, and the batch of its call in flight."""

    __slots__ = ("in_flight", "partition", "queue", "worker")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.queue: deque[_Queued] = deque()
        self.in_flight: list[_Queued] = []
        self.worker: asyncio.Task[None] | None = None


class ReservationBatcher:
    """Sends one `votes_reserve` call per partition at a time; later requests form the next one, in order.

    Each request is answered by its deadline, even if earlier calls hang.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._lanes: dict[int, _Lane] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._releases: set[asyncio.Task[None]] = set()

    def reserve(self, partition: int, request: Request, deadline: float) -> "asyncio.Future[Answer]":
        """Queue a request; those for one partition are decided in the order of these calls.

        The future raises `ViewsUnavailable`, also at `deadline` (loop time). A later reservation is released.
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
                batch = [lane.queue.popleft() for _ in range(min(CALL_REQUESTS, len(lane.queue)))]
                lane.in_flight = batch
                try:
                    await self._decide(lane.partition, batch)
                except Exception as error:
                    for queued in batch:
                        if not queued.answer.done():
                            queued.answer.set_exception(error)
        finally:
            lane.in_flight, lane.worker = [], None

    async def _decide(self, partition: int, batch: Sequence[_Queued]) -> None:
        started = time.perf_counter()
        answers = await self._views.reserve(partition, [queued.request for queued in batch])
        RESERVE_SECONDS.observe(time.perf_counter() - started)
        for (request, future, _), answer in zip(batch, answers, strict=True):
            if not future.done():
                future.set_result(answer)
            elif isinstance(answer, Granted):
                release = asyncio.ensure_future(self._release(partition, request, answer))
                self._releases.add(release)
                release.add_done_callback(self._releases.discard)

    async def _release(self, partition: int, request: Request, granted: Granted) -> None:
        """Release a reservation whose caller timed out, so it is never recorded."""
        with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
            await self._views.release(
                partition, request.contest.key, request.voter, request.vote_id, granted.incarnation
            )

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue requests. Queued ones are never sent; the outcome of those in flight is unknown."""
        now = loop.time()
        busy = [lane for lane in self._lanes.values() if lane.worker is not None]
        for lane in busy:
            for queued in (*lane.in_flight, *lane.queue):
                if queued.deadline <= now and not queued.answer.done():
                    queued.answer.set_exception(ViewsUnavailable(RECOVERING, retry_after_s=1))
            # in place: the worker uses the same queue
            live = [queued for queued in lane.queue if not queued.answer.done()]
            if len(live) < len(lane.queue):
                lane.queue.clear()
                lane.queue.extend(live)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None


class ConfirmationBatcher:
    """Confirms per loop tick and partition that the gate is still open under the votes' fence epoch."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._waiting: dict[tuple[int, int], list[asyncio.Future[bool]]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def confirm(self, partition: int, incarnation: int) -> "asyncio.Future[bool]":
        """Share one call among all votes acknowledged before it is sent. The future raises `ViewsUnavailable`."""
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
            is_confirmed = await self._views.confirm(*key)
        except Exception as error:
            for future in waiting:
                if not future.done():
                    future.set_exception(error)
        else:
            for future in waiting:
                if not future.done():
                    future.set_result(is_confirmed)
