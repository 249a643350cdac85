"""Batching of concurrent votes' calls to Valkey: uses of address limits, reservations and confirmations."""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context
from itertools import islice

from libs.metrics.table import RESERVE_SECONDS
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.tally.reservations import Answer, Granted, Request
from libs.views.address_counters import AddressAnswer, AddressCounters, Take, Taken
from libs.views.vote_views import VoteViews
from libs.voting.protocol.effects import AddressTaken

CALL_REQUESTS = 64
"""Requests decided by one call: about 1 ms of Valkey's time."""
SWEEP_S = 0.1
"""Interval of the deadline checks: a timeout may be reported this much late."""

Reply = Callable[[Answer | Exception], None]
"""Called once, with the ledger's answer or the error."""
Confirmed = Callable[[bool | Exception], None]
"""Called once, with the gate's answer or the error."""


Used = Callable[[AddressTaken | Exception], None]
"""Called once, with the uses of an address's limits or the error."""


class _Queued:
    """One request, its deadline (loop time), and the callback of its answer; None once called."""

    __slots__ = ("deadline", "reply", "request")

    def __init__(self, request: Request, deadline: float, reply: Reply) -> None:
        self.request = request
        self.deadline = deadline
        self.reply: Reply | None = reply

    def answer(self, answer: Answer | Exception) -> bool:
        """Return whether the caller still waited for an answer."""
        reply, self.reply = self.reply, None
        if reply is None:
            return False
        reply(answer)
        return True


class _PartitionQueue:
    """One partition's queued `requests`, and the batch of its call in flight."""

    __slots__ = ("in_flight", "partition", "requests", "worker")

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self.requests: deque[_Queued] = deque()
        self.in_flight: list[_Queued] = []
        self.worker: asyncio.Task[None] | None = None


class ReservationBatcher:
    """Sends one `votes_reserve` call per partition at a time; later requests form the next one, in order.

    Each request is answered by its deadline, even if earlier calls hang.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._queues: dict[int, _PartitionQueue] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._releases: set[asyncio.Task[None]] = set()

    def reserve(self, partition: int, request: Request, deadline: float, reply: Reply) -> None:
        """Queue a request; those for one partition are decided in the order of these calls.

        The reply is `ViewsUnavailable` at `deadline` (loop time). A later reservation is released.
        """
        queue = self._queues.get(partition)
        if queue is None:
            queue = self._queues[partition] = _PartitionQueue(partition)
        queue.requests.append(_Queued(request, deadline, reply))
        if queue.worker is None:
            queue.worker = asyncio.create_task(self._work(queue), context=Context())  # it outlives the request
        if self._sweeper is None:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)

    async def _work(self, queue: _PartitionQueue) -> None:
        try:
            while queue.requests:
                batch = [queue.requests.popleft() for _ in range(min(CALL_REQUESTS, len(queue.requests)))]
                queue.in_flight = batch
                try:
                    await self._decide(queue.partition, batch)
                except Exception as error:
                    for queued in batch:
                        queued.answer(error)
        finally:
            queue.in_flight, queue.worker = [], None

    async def _decide(self, partition: int, batch: Sequence[_Queued]) -> None:
        started = time.perf_counter()
        answers = await self._views.reserve(partition, [queued.request for queued in batch])
        RESERVE_SECONDS.observe(time.perf_counter() - started)
        for queued, answer in zip(batch, answers, strict=True):
            if not queued.answer(answer) and isinstance(answer, Granted):
                release = asyncio.ensure_future(self._release(partition, queued.request, answer))
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
        busy = [queue for queue in self._queues.values() if queue.worker is not None]
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None
        for queue in busy:
            overdue = [queued for queued in (*queue.in_flight, *queue.requests) if queued.deadline <= now]
            if overdue:
                live = [queued for queued in queue.requests if queued.deadline > now]
                # in place: the worker uses the same queue
                queue.requests.clear()
                queue.requests.extend(live)
            for queued in overdue:
                queued.answer(ViewsUnavailable(RECOVERING, retry_after_s=1))


class ConfirmationBatcher:
    """Confirms per loop tick and partition that the gate is still open under the votes' fence epoch."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._waiting: dict[tuple[int, int], list[Confirmed]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def confirm(self, partition: int, incarnation: int, reply: Confirmed) -> None:
        """Share one call among all votes acknowledged before it is sent."""
        key = partition, incarnation
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = [reply]
            task = asyncio.create_task(self._ask(key), context=Context())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        else:
            waiting.append(reply)

    async def _ask(self, key: tuple[int, int]) -> None:
        waiting = self._waiting.pop(key)
        answer: bool | Exception
        try:
            answer = await self._views.confirm(*key)
        except Exception as error:
            answer = error
        for reply in waiting:
            reply(answer)


class AddressBatcher:
    """Uses the limits of addresses for all votes of a loop tick together, in their order."""

    def __init__(self, addresses: AddressCounters) -> None:
        self._addresses = addresses
        self._waiting: list[tuple[list[Take], Used]] = []
        self._asking: set[asyncio.Task[None]] = set()

    def take(self, takes: list[Take], reply: Used) -> None:
        """Use the limits for one vote."""
        self._waiting.append((takes, reply))
        if len(self._waiting) == 1:
            task = asyncio.create_task(self._ask(), context=Context())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)

    async def _ask(self) -> None:
        waiting, self._waiting = self._waiting, []
        try:
            answers = iter(await self._addresses.take([take for takes, _ in waiting for take in takes]))
        except Exception as error:
            for _, reply in waiting:
                reply(error)
            return
        for takes, reply in waiting:
            reply(_used(takes, list(islice(answers, len(takes)))))


def _used(takes: Sequence[Take], answers: Sequence[AddressAnswer | ViewsUnavailable]) -> AddressTaken | Exception:
    taken, used = [], None
    for take, answer in zip(takes, answers, strict=True):
        if isinstance(answer, ViewsUnavailable):
            return answer
        if answer.taken is Taken.TAKEN:
            taken.append(take.counter[1])
        elif answer.taken is Taken.FULL:
            used = answer.used
    return AddressTaken(tuple(taken), used)
