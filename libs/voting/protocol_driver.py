"""Driver of the voting protocols: performs their effects on Valkey and Kafka, for many votes in few calls."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import ExitStack, suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final, Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.topics import Log
from libs.tally.contest import Contest
from libs.tally.errors import RECOVERING, LogUnavailable, TallyError, ViewsUnavailable
from libs.tally.events import VoteCast
from libs.tally.reservations import RemovalAnswer, Request, Take, Taken
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.telemetry.tracing import Tracing, appending, is_traced, step
from libs.views.votes.address_counters import ADDRESS_LIFE_S, AddressCounters
from libs.views.votes.vote_views import VoteViews
from libs.voting.batching import ConfirmationBatcher, ReservationBatcher, StartBatcher
from libs.voting.cast_reader import ReadCast
from libs.voting.contest_cache import ContestCache
from libs.voting.partition_waiting import POLL_S, PartitionWaiting, Undecided
from libs.voting.protocol import effects
from libs.voting.protocol_run import ENDED, GAVE_UP, QUEUED, SENT, Finish, Reply, Run

RESERVE_WAIT_S: Final = 5.0
"""Wait for the ledger's answer, including the time in the queue."""
LAST_READ_WAIT_S: Final = 0.5
"""Wait for one read of the fold after `SETTLE_WAIT_S` has passed."""
SPANS: Final[dict[type, str]] = {
    effects.TakeAddress: "use address limit",
    effects.Reserve: "reserve",
    effects.ReserveRemoval: "reserve",
    effects.Confirm: "confirm",
    effects.AwaitRecord: "await fold",
    effects.AwaitVote: "await fold",
    effects.AwaitGate: "await gate",
    effects.LoadContest: "load contest",
}


class CallbackAppender(Protocol):
    """Appends records, with a callback in place of a future."""

    def append_then(
        self,
        topic: str,
        partition: int,
        value: bytes,
        key: bytes | None,
        reply: Callable[[Appended | LogUnavailable], object],
    ) -> None: ...


class Driver:
    """Runs protocols. Each effect gets exactly one reply, by a deadline."""

    def __init__(
        self,
        topic: Log,
        views: VoteViews,
        addresses: AddressCounters,
        contests: ContestCache,
        log: CallbackAppender,
        read_cast: ReadCast,
        tracing: Tracing | None = None,
    ) -> None:
        self._topic = topic
        self._views = views
        self._contests = contests
        self._log = log
        self._read_cast = read_cast
        self._tracing = tracing
        self._addresses = addresses
        self._reservations = ReservationBatcher(views)
        self._confirmations = ConfirmationBatcher(views)
        self._watch = PartitionWaiting(views)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._starts = StartBatcher(Run.begin)
        self._put: dict[tuple[int, int, str, int, int], asyncio.Task[bool]] = {}
        self._perform: Final[dict[type, Callable[[Run, Any], None]]] = {
            effects.TakeAddress: self._take_address,
            effects.Reserve: self._reserve,
            effects.Append: self._append,
            effects.Confirm: self._confirm,
            effects.AwaitRecord: self._await_record,
            effects.AwaitVote: self._await_vote,
            effects.AwaitGate: self._await_gate,
            effects.ReserveRemoval: partial(self._start, self._reserve_removal),
            effects.Release: partial(self._start, self._release),
            effects.GiveAddress: partial(self._start, self._give_address),
            effects.LoadContest: partial(self._start, self._load_contest),
            effects.PutInForce: partial(self._start, self._put_in_force),
            effects.ReadVote: partial(self._start, self._read_vote),
            effects.ReadCast: partial(self._start, self._read_folded),
        }

    def run(
        self,
        steps: effects.Steps[Any],
        account: str,
        command: CastVote | RemoveVote,
        partition: int,
        finish: Finish,
        after: Run | None = None,
    ) -> Run:
        """Start a protocol about the vote of `command`, under load with others (`StartBatcher`).

        If it is decided and recorded `after` another vote of the voter, that one was started just before it.
        """
        run = Run(steps, account, command, partition, asyncio.get_running_loop(), finish, after)
        if self._tracing is not None and is_traced():
            run.span = ExitStack()
            traced_step = partial(self._traced_step, run)
            run.reply = partial(copy_context().run, traced_step)
        else:
            run.reply = partial(self._step, run)
        self._starts.add(run)
        return run

    def _step(self, run: Run, reply: Any) -> None:
        """Resume the protocol with a reply, and perform its next effect."""
        if isinstance(reply, Exception) and not isinstance(reply, TallyError):
            self._finish(run, reply)
            return
        try:
            effect = run.steps.send(reply)
            if run.span is not None:
                self._open_span(run.span, effect)
            self._perform[type(effect)](run, effect)
        except StopIteration as end:
            self._finish(run, end.value)
        except Exception as error:
            self._finish(run, error)

    def _traced_step(self, run: Run, reply: Any) -> None:
        """Step in the request's context, after the span of the effect that is replied to."""
        assert run.span is not None
        run.span.close()
        self._step(run, reply)

    def _finish(self, run: Run, result: Any) -> None:
        finish, run.finish = run.finish, None
        run.reply = _ignore  # it refers to the run: thousands of such cycles would wait for the garbage collector
        run.steps.close()
        run.gave_up = isinstance(result, GAVE_UP)
        if finish is not None:
            self._starts.end()
            finish(result)
        run.note(ENDED)

    def _open_span(self, span: ExitStack, effect: effects.Effect) -> None:
        """Open the effect's span; records appended now refer to it."""
        if isinstance(effect, effects.Append):
            span.enter_context(appending(self._tracing, self._topic.name, 1))
        elif (name := SPANS.get(type(effect))) is not None:
            span.enter_context(step(self._tracing, name))

    def _take_address(self, run: Run, effect: effects.TakeAddress) -> None:
        command, contest = run.command, effect.contest
        assert isinstance(command, CastVote)
        limit, expires_at_s = contest.ip_restriction_per_participant, _expiry(contest)
        takes = [
            Take((contest.key, participant, command.address or ""), effect.taker, votes, limit, expires_at_s)
            for participant, votes in effect.votes
        ]
        if len(takes) == 1 and not self._views.is_cluster:
            limited = effect.then._replace(take=takes[0])
            self._queue_reservation(run, limited, partial(run.take_address, effect.votes[0][0]))
        else:
            run.then(SENT, partial(self._start, self._take_counters, run, takes))

    async def _take_counters(self, _: Run, takes: Sequence[Take]) -> effects.AddressTaken:
        return await take_all(self._addresses, takes)

    def _reserve(self, run: Run, effect: effects.Reserve) -> None:
        reserved, run.reserved = run.reserved, None
        if reserved is None:
            self._queue_reservation(run, effect.request, run.take_reservation)
        else:
            run.loop.call_soon(run.take_answer, reserved)

    def _queue_reservation(self, run: Run, request: Request, reply: Reply) -> None:
        """Queue a reservation; one after a record that does not count, when the vote before has ended."""
        if run.stage >= SENT:
            run.then(ENDED, partial(self._queue, run, request, reply))
        else:
            self._queue(run, request, reply)

    def _queue(self, run: Run, request: Request, reply: Reply) -> None:
        now = run.loop.time()
        if now + POLL_S > run.settle_deadline:
            run.loop.call_soon(reply, _recovering())
            return
        deadline = min(run.settle_deadline, now + RESERVE_WAIT_S)
        self._reservations.reserve(run.partition, request, deadline, reply, joins=run.queue())
        run.note(QUEUED)

    def _append(self, run: Run, effect: effects.Append) -> None:
        event = effect.event
        value, key = vote_codec.encode(event), event.voter.encode()
        self._log.append_then(self._topic.name, run.partition, value, key, run.reply)
        run.incarnation = event.incarnation
        run.note(SENT)

    def _confirm(self, run: Run, effect: effects.Confirm) -> None:
        self._confirmations.confirm(run.partition, effect.incarnation, run.reply)

    def _await_record(self, run: Run, effect: effects.AwaitRecord) -> None:
        """Wait until the run's deadline, or after it, for one read of the fold.

        A wait for a gate after it may last until the run's deadline.
        """
        deadline = max(run.settle_deadline, asyncio.get_running_loop().time() + LAST_READ_WAIT_S)
        vote = Undecided(run.name, effect.is_decided, effect.incarnation, effect.offset)
        run.gate_deadline = run.settle_deadline
        self._reply_with(run, self._watch.wait_for_vote(run.partition, vote, deadline))

    def _await_vote(self, run: Run, effect: effects.AwaitVote) -> None:
        vote = Undecided(run.name, effect.is_decided)
        self._reply_with(run, self._watch.wait_for_vote(run.partition, vote, run.gate_deadline, effect.since))

    def _await_gate(self, run: Run, effect: effects.AwaitGate) -> None:
        self._reply_with(run, self._watch.wait_for_gate(run.partition, effect.since, run.gate_deadline))

    def _reply_with(self, run: Run, waiting: "asyncio.Future[Any]") -> None:
        waiting.add_done_callback(partial(self._ended, run))

    def _start(self, perform: Callable[[Run, Any], Coroutine[Any, Any, Any]], run: Run, effect: Any) -> None:
        """Perform an effect by a task, whose result or error is the reply."""
        task = asyncio.create_task(perform(run, effect))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(partial(self._ended, run))

    def _ended(self, run: Run, future: "asyncio.Future[Any]") -> None:
        error = _recovering() if future.cancelled() else future.exception()
        run.reply(future.result() if error is None else error)

    async def _reserve_removal(self, run: Run, effect: effects.ReserveRemoval) -> RemovalAnswer:
        if asyncio.get_running_loop().time() + POLL_S > run.settle_deadline:
            raise _recovering()
        command, contest = run.command, effect.contest
        if contest is None:
            assert isinstance(command, CastVote)
            return await self._views.refund(run.partition, command)
        declined = not contest.is_vote_removal_allowed
        return await self._views.remove(run.partition, contest, command.voter, command.vote_id, declined)

    async def _release(self, run: Run, effect: effects.Release) -> None:
        with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
            await self._views.release(run.partition, run.name, effect.incarnation, removal=effect.removal)

    async def _give_address(self, run: Run, effect: effects.GiveAddress) -> None:
        """Give back; a failure changes nothing: counters expire. Nothing of the vote is recorded after it."""
        run.note(SENT)
        with suppress(ViewsUnavailable):
            await asyncio.gather(
                *(
                    self._addresses.give(
                        (run.command.contest, participant, effect.address), taker, removed=effect.removed
                    )
                    for participant, taker in effect.uses
                )
            )

    async def _load_contest(self, run: Run, effect: effects.LoadContest) -> Contest:
        """Load until the version suffices; the projector may not have folded the version in force yet."""
        clock, at_least = asyncio.get_running_loop().time, effect.at_least or 0
        while clock() <= run.gate_deadline:
            contest = await self._contests.reload(run.account, effect.former.key, effect.at_least)
            if contest.version >= at_least:
                if contest.version == effect.former.version:
                    await asyncio.sleep(POLL_S)  # the gate may have been closed meanwhile
                return contest
            await asyncio.sleep(POLL_S)
        raise ViewsUnavailable("The contest's configuration keeps changing.", retry_after_s=1)

    async def _put_in_force(self, run: Run, effect: effects.PutInForce) -> bool:
        """Share one call among all votes that put the same in force."""
        contest = effect.contest
        key = run.partition, effect.incarnation, contest.key, contest.version, contest.as_of
        task = self._put.get(key)
        if task is None:
            task = asyncio.ensure_future(self._views.put_in_force(run.partition, contest, effect.incarnation))
            self._put[key] = task
            task.add_done_callback(lambda _: self._put.pop(key))
        return await task

    async def _read_vote(self, run: Run, _: effects.ReadVote) -> VoteCast | None:
        with suppress(LogUnavailable, ViewsUnavailable):
            state = await self._views.lookup(run.partition, *run.name)
            if state.status is VoteStatus.COUNTED and state.offset is not None:
                return await self._read_cast(run.partition, state.offset)
        return None

    async def _read_folded(self, run: Run, effect: effects.ReadCast) -> VoteCast | None:
        return await self._read_cast(run.partition, effect.offset)


async def take_all(addresses: AddressCounters, takes: Sequence[Take]) -> effects.AddressTaken:
    """Use the limits of an address for one vote, which waits for its own counters only.

    While a counter is away, votes pass it uncounted: the limit is advisory, and else a lost shard refused voters
    whose own partition is well.
    """
    held, used = [], None
    for take, answer in zip(takes, await addresses.take(takes), strict=True):
        if isinstance(answer, ViewsUnavailable):
            continue
        if answer.taken is Taken.FULL:
            used = answer.used
        else:
            held.append(take.counter[1])
    return effects.AddressTaken(tuple(held), used)


def _ignore(_: Any) -> None:
    """Take the place of a finished protocol's reply: there is none to come."""


def _recovering() -> ViewsUnavailable:
    return ViewsUnavailable(RECOVERING, retry_after_s=1)


def _expiry(contest: Contest) -> int:
    """Return when an address's counter may expire (s since 1970): a day after the contest's end."""
    if contest.end is not None:
        return contest.end // 1_000_000 + 86_400
    return int(time.time()) + ADDRESS_LIFE_S
