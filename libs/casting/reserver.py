"""Reservations and confirmations of concurrent requests, gathered into few calls."""

import asyncio
import time
from collections import deque

from libs.metrics.table import RESERVE_SECONDS
from libs.tally.admission import Answer, Request
from libs.views.votes import VoteViews

CALL_REQUESTS = 64
"""Requests decided by one call: about 1 ms of Valkey's time."""


class Reserver:
    """One call a partition is under way at a time; what comes meanwhile goes with the next, in order."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._queues: dict[int, deque[tuple[Request, asyncio.Future[Answer]]]] = {}
        self._busy: dict[int, asyncio.Task[None]] = {}

    def reserve(self, partition: int, request: Request) -> "asyncio.Future[Answer]":
        """Requests for one partition are decided in the order of these calls. Raises `ViewsUnavailable`."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = deque()
        queue.append((request, future))
        if partition not in self._busy:
            self._busy[partition] = asyncio.ensure_future(self._work(partition, queue))
        return future

    async def _work(self, partition: int, queue: deque[tuple[Request, "asyncio.Future[Answer]"]]) -> None:
        try:
            while queue:
                batch = [queue.popleft() for _ in range(min(CALL_REQUESTS, len(queue)))]
                began = time.perf_counter()
                try:
                    answers = await self._views.reserve(partition, [request for request, _ in batch])
                except Exception as error:
                    for _, future in batch:
                        if not future.done():
                            future.set_exception(error)
                    continue
                RESERVE_SECONDS.observe(time.perf_counter() - began)
                for (_, future), answer in zip(batch, answers, strict=True):
                    if not future.done():
                        future.set_result(answer)
        finally:
            del self._busy[partition]


class Confirmer:
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
