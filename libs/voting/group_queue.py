"""The queue of votes that wait for a group: it decides which of them travel together, and when they start."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any, Final

from libs.concurrency.tasks import loop_time
from libs.voting.protocol_run import Run

GROUP_VOTES: Final = 64
GROUP_PARTITIONS: Final = 16
"""Votes of a group, and their partitions: one call reserves them in less than 2 ms of Valkey's time."""
GROUPS: Final = 4
"""Groups of a server that are being reserved at once."""
FEW_VOTES: Final = 8
"""With fewer votes at a time, each starts at once: the load is low."""
LEAST_GROUP: Final = 32
"""A group is half of the votes at a time: all of them if they are fewer than this, and at most `GROUP_VOTES`."""
SHORT_WAIT_S: Final = 0.01
LONGEST_WAIT_S: Final = 0.03
"""Bounds of the wait for a group, if fewer votes come than before: as long as the last votes took."""
SWEEP_S: Final = 0.1
"""Interval of the deadline checks: a timeout may be reported this much late."""


class Group:
    """Votes that one call reserves, by partition: those of a partition are appended as one batch."""

    __slots__ = ("parts", "requests", "server")

    def __init__(self, server: "_Server", parts: dict[int, list[Run]]) -> None:
        self.server = server
        self.parts = parts
        self.requests: dict[int, list[Any]] = {
            partition: [run.request for run in runs] for partition, runs in parts.items()
        }
        """The requests of its votes. A vote that is given up meanwhile has none any more, or another one."""

    def overdue(self, now: float) -> list[Run]:
        """Return the votes that still wait for their reservation, and should not any more."""
        runs = (run for its in self.parts.values() for run in its)
        return [run for run in runs if run.request is not None and run.reserve_deadline <= now]


class _Server:
    """Queued votes of the partitions that share calls, in the order of the partitions' turns."""

    __slots__ = ("in_flight", "is_released", "size", "votes")

    def __init__(self) -> None:
        self.votes: dict[int, deque[Run]] = {}
        self.size = 0
        self.in_flight: list[Group] = []
        """Groups that are being reserved."""
        self.is_released = False
        """True if its votes wait for no further ones, until the queue is empty."""

    def add(self, run: Run) -> None:
        self.votes.setdefault(run.partition, deque()).append(run)
        self.size += 1

    @property
    def is_ready(self) -> bool:
        """Return whether a group can start. One that could have more votes waits until none is in flight."""
        if not self.in_flight:
            return self.size > 0
        return self.size >= GROUP_VOTES and len(self.in_flight) < GROUPS

    def take_group(self) -> Group:
        """Remove as many votes from the queue as one call may reserve.

        All votes of a partition are taken before those of the next: each partition adds to a call's cost.
        """
        parts: dict[int, list[Run]] = {}
        room = GROUP_VOTES
        while self.votes and room and len(parts) < GROUP_PARTITIONS:
            partition = next(iter(self.votes))
            waiting = self.votes.pop(partition)
            taken = parts[partition] = [waiting.popleft() for _ in range(min(room, len(waiting)))]
            while waiting and waiting[0].joins:
                taken.append(waiting.popleft())
            room = max(0, room - len(taken))
            self.size -= len(taken)
            if waiting:
                self.votes[partition] = waiting  # it goes on after the others
        return Group(self, parts)

    def take_overdue(self, now: float) -> list[Run]:
        """Remove the overdue votes, which are never sent, from the queue."""
        overdue = []
        for partition, waiting in list(self.votes.items()):
            overdue += [run for run in waiting if run.reserve_deadline <= now]
            self.votes[partition] = deque(run for run in waiting if run.reserve_deadline > now)
            if not self.votes[partition]:
                del self.votes[partition]
        self.size -= len(overdue)
        return overdue


class GroupQueue:
    """Collects votes until a group is complete, and starts it; those of each server are groups of their own.

    As many votes are expected at a time as were in progress and waiting before: clients send their next ones when
    they are answered. An incomplete group ends that expectation. Without groups, votes spread over the steps of
    their way: each call then serves few of them, and the fewer clients a process has, the more a vote costs.
    """

    def __init__(
        self,
        server_of: Callable[[int], int],
        start: Callable[[Group], None],
        give_up: Callable[[Run], None],
        clock: Callable[[], float] = loop_time,
    ) -> None:
        """`start` carries a group on, and calls `reserved`; `give_up` replies to an overdue vote."""
        self._server_of = server_of
        self._start = start
        self._give_up = give_up
        self._clock = clock
        self._servers: dict[int, _Server] = {}
        self._waiting = 0
        self._next: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._in_progress = 0
        self._expected = 0
        self._started_at: float | None = None
        """When the latest group was started, until its first vote has ended."""
        self._took_s = 0.0

    def add(self, run: Run) -> None:
        """Start a vote at the end of the event loop's tick, or with its group."""
        self.end(run)  # one that is reserved again
        number = self._server_of(run.partition)
        server = self._servers.get(number)
        if server is None:
            server = self._servers[number] = _Server()
        server.add(run)
        self._waiting += 1
        if self._next is None:
            # all votes of a batch are added by then
            self._next = asyncio.get_running_loop().call_soon(self._decide, context=Context())
        if self._sweeper is None:
            self._sweeper = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep, context=Context())

    def reserved(self, group: Group) -> None:
        """Note that a group's reservations have ended: the next ones can start."""
        group.server.in_flight.remove(group)
        self._start_groups(group.server)

    def end(self, run: Run) -> None:
        """Note that a vote has ended."""
        if run.is_counted:
            run.is_counted = False
            self._in_progress -= 1
            if self._started_at is not None:
                self._took_s = self._clock() - self._started_at
                self._started_at = None

    def _decide(self) -> None:
        self._next = None
        self._expected = max(self._expected, self._in_progress + self._waiting)
        group = min(self._expected, max(LEAST_GROUP, min(GROUP_VOTES, self._expected // 2)))
        if self._expected < FEW_VOTES or self._waiting >= group:
            self._release()
        elif self._timer is None:
            wait_s = min(LONGEST_WAIT_S, max(SHORT_WAIT_S, self._took_s))
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_s, self._release_incomplete, context=Context())

    def _release_incomplete(self) -> None:
        self._expected = 0
        self._release()

    def _release(self) -> None:
        self._stop_timer()
        for server in self._servers.values():
            if server.size:
                server.is_released = True
                self._start_groups(server)

    def _start_groups(self, server: _Server) -> None:
        while server.is_released and server.is_ready:
            group = server.take_group()
            server.in_flight.append(group)
            server.is_released = server.size > 0
            self._started_at = self._clock()
            for runs in group.parts.values():
                self._waiting -= len(runs)
                self._in_progress += len(runs)
                for run in runs:
                    run.is_counted = True
            self._start(group)
        if not self._waiting:
            self._stop_timer()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        """Give up overdue votes. Queued ones are never sent; the outcome of those in flight is unknown."""
        loop, overdue, is_busy = asyncio.get_running_loop(), list[Run](), False
        for server in self._servers.values():
            queued = server.take_overdue(loop.time())
            self._waiting -= len(queued)
            overdue += queued
            overdue += [run for group in server.in_flight for run in group.overdue(loop.time())]
            is_busy = is_busy or server.size > 0 or bool(server.in_flight)
        self._sweeper = loop.call_later(SWEEP_S, self._sweep, context=Context()) if is_busy else None
        for run in overdue:
            self._give_up(run)
