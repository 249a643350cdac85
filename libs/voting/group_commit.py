"""Group commit: carries groups of votes from their reservation to their answers, each step in few calls.

Each vote is a protocol (`protocol/`), which alone decides. A group performs the effects of the usual course, which
its votes have in common. A vote whose next effect is another one falls out of its group, and goes on by itself.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from itertools import pairwise, repeat
from typing import Any, Final, Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import Log
from libs.kafka.partition_queues import Record
from libs.tally.errors import RECOVERING, LedgerCatchingUp, LogUnavailable, TallyError, ViewsUnavailable
from libs.tally.reservations import AddressAnswer, GateClosed, Granted, Request, Reserved, Stale, Take, Taken
from libs.telemetry.metrics import RESERVE_SECONDS
from libs.telemetry.tracing import NO_HEADERS, Tracing, appending, step
from libs.views.votes.vote_views import VoteViews
from libs.voting.group_queue import Group, GroupQueue
from libs.voting.partition_waiting import POLL_S
from libs.voting.protocol.effects import (
    AddressTaken,
    Append,
    AwaitGate,
    AwaitRecord,
    AwaitVote,
    Confirm,
    Effect,
    LoadContest,
    Reserve,
    ReserveRemoval,
    TakeAddress,
)
from libs.voting.protocol_run import Run

RESERVE_WAIT_S: Final = 5.0
"""Wait for the ledger's answer, including the time in the queue."""
CONFIRMED_PARTITIONS: Final = 64
"""Partitions confirmed by one call: less than 1 ms of Valkey's time."""
MOST_TOGETHER: Final = 16
"""Votes of a voter that are reserved together: a call has so many more than others at most."""
GAVE_UP: Final = LedgerCatchingUp, LogUnavailable, ViewsUnavailable
"""Results of a run that may have waited until its deadline."""
SPANS: Final[dict[type, str]] = {
    TakeAddress: "use address limit",
    Reserve: "reserve",
    ReserveRemoval: "reserve",
    Confirm: "confirm",
    AwaitRecord: "await fold",
    AwaitVote: "await fold",
    AwaitGate: "await gate",
    LoadContest: "load contest",
}
Replies = Iterable[tuple[Run, Any]]


class GroupAppender(Protocol):
    """Appends groups of records, each with an outcome of its own."""

    def append_group(
        self, topic: str, partition: int, records: Sequence[Record]
    ) -> "asyncio.Future[list[Appended | LogUnavailable]]": ...


class GroupCommit:
    """Runs protocols: the usual effects of votes in groups, all others by `alone`, which calls `reply` later.

    Votes of one voter in a request are reserved by one call, up to `MOST_TOGETHER` of them, and in any case one
    after another: so each is decided and recorded after those before it.
    """

    def __init__(
        self,
        topic: Log,
        views: VoteViews,
        log: GroupAppender,
        take_of: Callable[[Run, TakeAddress], Take | None],
        alone: Callable[[Run], None],
        tracing: Tracing | None = None,
    ) -> None:
        """`take_of` returns the use of an address's limit that the call of a reservation can make, if any."""
        self._topic = topic
        self._views = views
        self._log = log
        self._take_of = take_of
        self._alone = alone
        self._tracing = tracing
        self._queue = GroupQueue(self._server_of, self._start_group, self._give_up)
        self._confirmations = _Confirmations(views)
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, runs: Sequence[Run]) -> None:
        """Start runs of one voter and request in their order."""
        for before, after in pairwise(runs):
            before.after, after.before, after.is_held = after, before, True
        self.reply(runs[0], None)

    def reply(self, run: Run, reply: Any) -> None:
        """Resume a run, and perform its next effect."""
        self._resume(run, reply)
        self._perform(run)

    # the usual course

    async def _cast(self, group: Group) -> None:
        """Carry votes to their answers: reserve, append, confirm. Each partition goes on by itself."""
        for partition, reserved in (await self._reserve(group)).items():
            if granted := self._resume_all(reserved, Append):
                self._start_task(self._record(partition, granted))

    async def _record(self, partition: int, runs: Sequence[Run]) -> None:
        """Append the events of reserved votes as one batch, and confirm what is acknowledged."""
        if acknowledged := self._resume_all(await self._append(partition, runs), Confirm):
            await self._answer(partition, acknowledged)

    async def _answer(self, partition: int, runs: Sequence[Run]) -> None:
        """Confirm that the gate is still open under the fence epoch of acknowledged votes, and answer them."""
        effect = runs[0].effect  # one call reserved them, under one fence epoch
        assert isinstance(effect, Confirm)
        confirmed = await self._confirmations.ask(partition, effect.incarnation)
        self._resume_all(zip(runs, repeat(confirmed), strict=False))

    def _resume_all(self, replies: Replies, usual: type | None = None) -> list[Run]:
        """Resume votes. Return those that go on with the usual effect; the others have ended, or fall out."""
        going_on = []
        for run, reply in replies:
            self._resume(run, reply)
            if type(run.effect) is usual:
                going_on.append(run)
            else:
                self._perform(run)
        return going_on

    # its steps

    async def _reserve(self, group: Group) -> Mapping[int, Replies]:
        """Return the replies of each partition: not to overdue votes, which are answered, and to held ones."""
        started, requests = time.perf_counter(), group.requests
        answers: Sequence[Sequence[Reserved] | Exception]
        try:
            answers = await self._views.reserve_together([*requests.items()])
            RESERVE_SECONDS.observe(time.perf_counter() - started)
        except Exception as error:
            answers = [error] * len(requests)
        finally:
            self._queue.reserved(group)
        return {
            partition: self._replies(runs, requests[partition], its)
            for (partition, runs), its in zip(group.parts.items(), answers, strict=True)
        }

    def _replies(
        self, runs: Sequence[Run], requests: Sequence[Request], answers: Sequence[Reserved] | Exception
    ) -> Replies:
        """Return the replies to the votes of one partition."""
        if not isinstance(answers, Exception) and len(answers) != len(runs):
            answers = ValueError(f"{len(answers)} answers to {len(runs)} requests")
        if isinstance(answers, Exception):
            return [(run, answers) for run in runs if run.request is not None]
        replies = list[tuple[Run, Any]]()
        for run, request, reserved in zip(runs, requests, answers, strict=True):
            if run.request is not request:
                self._release(run, request, reserved)
            elif run.before is not None and isinstance(reserved.answer, GateClosed | Stale):
                run.is_held = True  # the one before it is reserved again first
            else:
                if isinstance(run.effect, TakeAddress):
                    self._resume(run, _taken(run.effect, reserved.use))
                replies.append((run, reserved.answer))
        return replies

    async def _append(self, partition: int, runs: Sequence[Run]) -> Replies:
        try:
            records = [self._record_of(run) for run in runs]
            outcomes: Sequence[Any] = await self._log.append_group(self._topic.name, partition, records)
        except Exception as error:  # a defect
            outcomes = [error] * len(runs)
        return zip(runs, outcomes, strict=True)

    def _record_of(self, run: Run) -> Record:
        assert isinstance(run.effect, Append)
        event, headers = run.effect.event, NO_HEADERS
        if run.context is not None and self._tracing is not None:
            headers = run.context.run(self._tracing.headers)
        return Record(vote_codec.encode(event), event.voter.encode(), headers)

    def _release(self, run: Run, request: Request, reserved: Reserved) -> None:
        """Release a reservation whose vote was overdue, so it is never recorded, and its use of a limit."""
        if isinstance(reserved.answer, Granted):
            is_held = reserved.use is not None and reserved.use.taken is not Taken.FULL
            take = request.take if is_held else None
            self._start_task(self._take_back(run, reserved.answer.incarnation, take))

    async def _take_back(self, run: Run, incarnation: int, take: Take | None) -> None:
        with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
            await self._views.release(run.partition, run.name, incarnation, take=take)

    # one vote

    def _resume(self, run: Run, reply: Any) -> None:
        """Send the reply to a run's pending effect: then its next effect is pending, or it has ended."""
        run.request = None
        if isinstance(reply, Exception) and not isinstance(reply, TallyError):
            self._end(run, reply)
            return
        try:
            if run.context is None:
                run.effect = run.steps.send(reply)
            else:
                run.effect = run.context.run(self._send_traced, run, reply)
        except StopIteration as end:
            self._end(run, end.value)
        except Exception as error:
            self._end(run, error)

    def _send_traced(self, run: Run, reply: Any) -> Effect:
        """Send the reply in the request's context, after the span of the effect that is replied to."""
        assert run.span is not None
        run.span.close()
        effect = run.steps.send(reply)
        if isinstance(effect, Append):
            run.span.enter_context(appending(self._tracing, self._topic.name, 1))
        elif (name := SPANS.get(type(effect))) is not None:
            run.span.enter_context(step(self._tracing, name))
        return effect

    def _end(self, run: Run, result: Any) -> None:
        finish, run.finish = run.finish, None
        after, run.after = run.after, None
        run.effect, run.before, run.is_held = None, None, False
        run.steps.close()
        if run.context is not None and run.span is not None:
            run.context.run(run.span.close)
        self._queue.end(run)
        if finish is not None:
            finish(result)
        if after is not None:
            after.before = None
            if after.is_held:
                run.loop.call_soon(self._go_on, after, isinstance(result, GAVE_UP))

    def _go_on(self, run: Run, is_late: bool) -> None:
        """Go on with a run that was held; `is_late`: the one before it gave up, which leaves no time to it."""
        if not is_late:
            run.start_clock()
        if run.has_begun:
            self._perform(run)
        else:
            self.reply(run, None)

    def _perform(self, run: Run) -> None:
        """Perform the pending effect of a run that is in no group."""
        effect = run.effect
        if isinstance(effect, Reserve | TakeAddress):
            run.is_held = run.before is not None
            run.request = self._request(run)
            if run.is_held:
                return
            if run.request is not None:
                self._enqueue(run)
                return
        match effect:
            case None:
                pass
            case Append():
                self._start_task(self._record(run.partition, [run]))
            case Confirm():
                self._start_task(self._answer(run.partition, [run]))
            case _:
                self._alone(run)

    def _enqueue(self, first: Run) -> None:
        """Queue a vote, and those held after it that its call can reserve, too, with one deadline for all."""
        now = first.loop.time()
        if now + POLL_S > first.settle_deadline:
            first.loop.call_soon(self._give_up, first)
            return
        run: Run | None = first
        for number in range(MOST_TOGETHER):
            if run is None or run.request is None:
                break
            run.reserve_deadline, run.joins = min(first.settle_deadline, now + RESERVE_WAIT_S), number > 0
            run.settle_deadline, run.gate_deadline = first.settle_deadline, first.gate_deadline
            run.is_held = False
            self._queue.add(run)
            run = run.after if run.after is not None and run.after.is_held else None
            if run is not None and not run.has_begun:
                self._resume(run, None)
                run.request = self._request(run)

    def _request(self, run: Run) -> Request | None:
        """Return the request by which a group can perform the pending effect; None: it is performed by itself."""
        match run.effect:
            case Reserve(request):
                return request
            case TakeAddress() as effect if (take := self._take_of(run, effect)) is not None:
                return effect.then._replace(take=take)
        return None

    def _give_up(self, run: Run) -> None:
        """Reply to a run whose reservation is overdue, or has no time left."""
        self.reply(run, _recovering())

    def _server_of(self, partition: int) -> int:
        return self._views.call_group(partition)

    def _start_group(self, group: Group) -> None:
        self._start_task(self._cast(group))

    def _start_task(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, context=Context())  # it outlives the requests
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Confirmations:
    """Confirms that gates are still open under a fence epoch.

    All that are asked for in a tick of the event loop share a call; in a cluster, those of a partition.
    """

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._asked: dict[tuple[int, int], asyncio.Future[bool | Exception]] = {}
        self._calls: set[asyncio.Task[None]] = set()

    def ask(self, partition: int, incarnation: int) -> "asyncio.Future[bool | Exception]":
        """Return the answer or the error of a call that is sent after this."""
        if not self._asked:
            call = asyncio.create_task(self._confirm_all(), context=Context())
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)
        gate = partition, incarnation
        if gate not in self._asked:
            self._asked[gate] = asyncio.get_running_loop().create_future()
        return self._asked[gate]

    async def _confirm_all(self) -> None:
        asked, self._asked = self._asked, {}
        servers = defaultdict[int, list[tuple[int, int]]](list)
        for gate in asked:
            servers[self._views.call_group(gate[0])].append(gate)
        calls = [
            gates[at : at + CONFIRMED_PARTITIONS]
            for gates in servers.values()
            for at in range(0, len(gates), CONFIRMED_PARTITIONS)
        ]
        if len(calls) == 1:
            await self._confirm(calls[0], asked)
        else:
            await asyncio.gather(*(self._confirm(gates, asked) for gates in calls))

    async def _confirm(
        self,
        gates: Sequence[tuple[int, int]],
        asked: Mapping[tuple[int, int], "asyncio.Future[bool | Exception]"],
    ) -> None:
        answers: Sequence[bool | Exception]
        try:
            answers = await self._views.confirm_together(gates)
        except Exception as error:
            answers = [error] * len(gates)
        for gate, answer in zip(gates, answers, strict=True):
            asked[gate].set_result(answer)


def _recovering() -> ViewsUnavailable:
    return ViewsUnavailable(RECOVERING, retry_after_s=1)


def _taken(effect: TakeAddress, use: AddressAnswer | None) -> AddressTaken:
    """Return the reply to the use of an address's limit that was made with the reservation."""
    if use is not None and use.taken is Taken.FULL:
        return AddressTaken((), use.used)
    return AddressTaken(() if use is None else (effect.votes[0][0],))
