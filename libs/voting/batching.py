"""Batching of concurrent votes: their starts, reservations and confirmations."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from functools import partial
from itertools import chain
from typing import Final, Generic, TypeVar

from libs.concurrency.tasks import loop_time
from libs.contracts.vote_states import VoteName
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.tally.reservations import Granted, Request, Reserved, Take, Taken
from libs.telemetry.metrics import RESERVE_SECONDS
from libs.views.votes.vote_views import VoteViews

T = TypeVar("T")

CALL_REQUESTS = 64
CALL_PARTITIONS = 16
"""Requests decided by one call, and their partitions: less than 2 ms of Valkey's time."""
CALLS = 4
"""Calls of a group of partitions in flight at once."""
CONFIRMED_PARTITIONS = 64
"""Partitions confirmed by one call: less than 1 ms of Valkey's time."""
FEW_RUNS: Final = 8
"""With fewer votes at a time, each starts at once: the load is low."""
LEAST_GROUP: Final = 32
MOST_GROUP: Final = 64
"""Bounds of a group, which is half of the votes at a time: all of them if they are fewer than the lower bound."""
SHORT_WAIT_S: Final = 0.01
LONGEST_WAIT_S: Final = 0.03
"""Bounds of the wait for a group, if fewer votes come than before: as long as the last votes took."""
SWEEP_S = 0.1
"""Interval of the deadline checks: a timeout may be reported this much late."""

Reply = Callable[[Reserved | Exception], None]
"""Called once, with the ledger's answer or the error."""
Confirmed = Callable[[bool | Exception], None]
"""Called once, with the gate's answer or the error."""


class _Queued:
    """One request, its deadline (loop time), and the callback of its answer; None once called.

    If it `joins` the request before it, one call decides both.
    """

    __slots__ = ("deadline", "joins", "partition", "reply", "request")

    def __init__(self, partition: int, request: Request, deadline: float, reply: Reply, joins: bool) -> None:
        self.partition = partition
        self.joins = joins
        self.request = request
        self.deadline = deadline
        self.reply: Reply | None = reply

    def answer(self, answer: Reserved | Exception) -> bool:
        """Return whether the caller still waited for an answer."""
        reply, self.reply = self.reply, None
        if reply is None:
            return False
        reply(answer)
        return True


_Call = dict[int, list[_Queued]]
"""Requests of one call by partition."""


class _GroupQueue:
    """Queued `requests` by partition, of the partitions that share calls, their number, and the calls in flight.

    The partitions are in the order of their turns.
    """

    __slots__ = ("in_flight", "is_due", "requests", "size")

    def __init__(self) -> None:
        self.requests: dict[int, deque[_Queued]] = {}
        self.size = 0
        self.in_flight: list[_Call] = []
        self.is_due = False
        """True if its next calls start in the event loop's next tick."""

    def add(self, queued: _Queued) -> None:
        self.requests.setdefault(queued.partition, deque()).append(queued)
        self.size += 1

    @property
    def is_ready(self) -> bool:
        """Return whether a call can start. One that could have more requests waits until none is in flight."""
        if not self.in_flight:
            return self.size > 0
        return self.size >= CALL_REQUESTS and len(self.in_flight) < CALLS

    def take_call(self) -> _Call:
        """Remove as many requests from the queue as one call may decide.

        All requests of a partition are taken before those of the next: each partition adds to a call's cost.
        """
        call: _Call = {}
        room = CALL_REQUESTS
        while self.requests and room and len(call) < CALL_PARTITIONS:
            partition = next(iter(self.requests))
            waiting = self.requests.pop(partition)
            taken = call[partition] = [waiting.popleft() for _ in range(min(room, len(waiting)))]
            while waiting and waiting[0].joins:
                taken.append(waiting.popleft())
            room = max(0, room - len(taken))
            self.size -= len(taken)
            if waiting:
                self.requests[partition] = waiting  # it goes on after the others
        return call

    def drop_overdue(self, now: float) -> list[_Queued]:
        """Remove the overdue requests, which are never sent, from the queue."""
        overdue = []
        for partition, waiting in list(self.requests.items()):
            overdue += [queued for queued in waiting if queued.deadline <= now]
            self.requests[partition] = deque(queued for queued in waiting if queued.deadline > now)
            if not self.requests[partition]:
                del self.requests[partition]
        self.size -= len(overdue)
        return overdue


class ReservationBatcher:
    """Sends a few `votes_reserve` calls at a time, each for many partitions if one server has them all.

    In a cluster each partition has its own calls. Later requests form the next calls.
    Each request is answered by its deadline, even if earlier calls hang.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._queues: dict[int, _GroupQueue] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._calls: set[asyncio.Task[None]] = set()
        self._releases: set[asyncio.Task[None]] = set()

    def reserve(
        self, partition: int, request: Request, deadline: float, reply: Reply, *, joins: bool = False
    ) -> None:
        """Queue a request.

        One that `joins` the request before it, of the same voter, is decided only if that one is. The reply is
        `ViewsUnavailable` at `deadline` (loop time). A later reservation is released.
        """
        number = self._views.call_group(partition)
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = _GroupQueue()
        queue.add(_Queued(partition, request, deadline, reply, joins))
        if not queue.is_due and queue.is_ready:
            queue.is_due = True
            asyncio.get_running_loop().call_soon(self._start_calls, queue, context=Context())
        if self._sweeper is None:
            loop = asyncio.get_running_loop()
            self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop)

    def _start_calls(self, queue: _GroupQueue) -> None:
        queue.is_due = False
        while queue.is_ready:
            call = queue.take_call()
            queue.in_flight.append(call)
            task = asyncio.create_task(self._decide(call), context=Context())  # it outlives the requests
            self._calls.add(task)
            task.add_done_callback(partial(self._end_call, queue, call))

    def _end_call(self, queue: _GroupQueue, call: _Call, task: "asyncio.Task[None]") -> None:
        self._calls.discard(task)
        queue.in_flight.remove(call)
        if not task.cancelled():
            self._start_calls(queue)

    async def _decide(self, call: _Call) -> None:
        started = time.perf_counter()
        requests = [(partition, [queued.request for queued in batch]) for partition, batch in call.items()]
        try:
            decided = await self._views.reserve_together(requests)
            RESERVE_SECONDS.observe(time.perf_counter() - started)
            for batch, answers in zip(call.values(), decided, strict=True):
                self._answer(batch, answers)
        except Exception as error:
            for batch in call.values():
                self._answer(batch, error)

    def _answer(self, batch: Sequence[_Queued], answers: Sequence[Reserved] | Exception) -> None:
        if isinstance(answers, Exception):
            for queued in batch:
                queued.answer(answers)
            return
        for queued, answer in zip(batch, answers, strict=True):
            if not queued.answer(answer):
                self._release_late(queued, answer)

    def _release_late(self, queued: _Queued, answer: Reserved) -> None:
        """Release a reservation whose caller timed out, so it is never recorded, and its use of a limit."""
        granted, request = answer.answer, queued.request
        is_held = answer.use is not None and answer.use.taken is not Taken.FULL
        if isinstance(granted, Granted):
            take = request.take if is_held else None
            release = asyncio.ensure_future(self._release(queued.partition, request, granted, take))
            self._releases.add(release)
            release.add_done_callback(self._releases.discard)

    async def _release(self, partition: int, request: Request, granted: Granted, take: Take | None) -> None:
        with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
            vote = VoteName(request.contest.key, request.voter, request.vote_id)
            await self._views.release(partition, vote, granted.incarnation, take=take)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        """Fail overdue requests. Queued ones are never sent; the outcome of those in flight is unknown."""
        now = loop.time()
        busy = [queue for queue in self._queues.values() if queue.in_flight or queue.size]
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, loop) if busy else None
        for queue in busy:
            in_flight = chain.from_iterable(batch for call in queue.in_flight for batch in call.values())
            overdue = [queued for queued in in_flight if queued.deadline <= now]
            for queued in (*overdue, *queue.drop_overdue(now)):
                queued.answer(ViewsUnavailable(RECOVERING, retry_after_s=1))


class ConfirmationBatcher:
    """Confirms that the gate is still open under the votes' fence epoch.

    All confirmations of a loop tick share a call; in a cluster, those of a partition.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._waiting: dict[tuple[int, int], list[Confirmed]] = {}
        self._asking: set[asyncio.Task[None]] = set()

    def confirm(self, partition: int, incarnation: int, reply: Confirmed) -> None:
        """Share one call among all votes acknowledged before it is sent."""
        if not self._waiting:
            task = asyncio.create_task(self._ask(), context=Context())
            self._asking.add(task)
            task.add_done_callback(self._asking.discard)
        self._waiting.setdefault((partition, incarnation), []).append(reply)

    async def _ask(self) -> None:
        waiting, self._waiting = self._waiting, {}
        groups = defaultdict[int, list[tuple[int, int]]](list)
        for gate in waiting:
            groups[self._views.call_group(gate[0])].append(gate)
        calls = [
            gates[at : at + CONFIRMED_PARTITIONS]
            for gates in groups.values()
            for at in range(0, len(gates), CONFIRMED_PARTITIONS)
        ]
        await asyncio.gather(*(self._confirm(gates, waiting) for gates in calls))

    async def _confirm(
        self, gates: Sequence[tuple[int, int]], waiting: Mapping[tuple[int, int], Sequence[Confirmed]]
    ) -> None:
        answers: Sequence[bool | Exception]
        try:
            answers = await self._views.confirm_together(gates)
        except Exception as error:
            answers = [error] * len(gates)
        for gate, answer in zip(gates, answers, strict=True):
            for reply in waiting[gate]:
                reply(answer)


class StartBatcher(Generic[T]):
    """Collects votes until a group is complete, and starts them together.

    As many votes are expected at a time as were in progress and waiting before: clients send their next ones when
    they are answered. An incomplete group ends that expectation. Without groups, votes spread over the steps of
    their way: each call then serves few of them, and the fewer clients a process has, the more a vote costs.
    """

    def __init__(self, start: Callable[[T], None], clock: Callable[[], float] = loop_time) -> None:
        self._start = start
        self._clock = clock
        self._waiting: list[T] = []
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._in_progress = 0
        self._expected = 0
        self._started_at: float | None = None
        """When the latest group was started, until its first vote has ended."""
        self._took_s = 0.0

    def add(self, run: T) -> None:
        """Start a run at the end of the event loop's tick, or with its group."""
        self._waiting.append(run)
        if self._next is None:
            # all runs of a batch are added by then
            self._next = asyncio.get_running_loop().call_soon(self._decide, context=Context())

    def end(self) -> None:
        """Note that a started run has ended."""
        self._in_progress -= 1
        if self._started_at is not None:
            self._took_s = self._clock() - self._started_at
            self._started_at = None

    def _decide(self) -> None:
        self._next = None
        self._expected = max(self._expected, self._in_progress + len(self._waiting))
        group = min(self._expected, max(LEAST_GROUP, min(MOST_GROUP, self._expected // 2)))
        if self._expected < FEW_RUNS or len(self._waiting) >= group:
            self._start_all()
        elif self._timer is None:
            wait_s = min(LONGEST_WAIT_S, max(SHORT_WAIT_S, self._took_s))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_s, self._start_incomplete, context=Context())

    def _start_incomplete(self) -> None:
        self._expected = 0
        self._start_all()

    def _start_all(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._started_at = self._clock()
        waiting, self._waiting = self._waiting, []
        self._in_progress += len(waiting)
        for run in waiting:
            self._start(run)
