"""Driver of the voting protocols: performs their effects on Valkey and Kafka, for many votes in few calls."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from typing import Any, Final

from libs.contracts.topics import Log
from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.contest import Contest
from libs.tally.errors import RECOVERING, LogUnavailable, ViewsUnavailable
from libs.tally.events import VoteCast
from libs.tally.reservations import RemovalAnswer, Take, Taken
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.telemetry.tracing import Tracing, is_traced
from libs.views.votes.address_counters import ADDRESS_LIFE_S, AddressCounters
from libs.views.votes.vote_views import VoteViews
from libs.voting.cast_reader import ReadCast
from libs.voting.contest_cache import ContestCache
from libs.voting.group_commit import GroupAppender, GroupCommit
from libs.voting.partition_waiting import POLL_S, PartitionWaiting, Undecided
from libs.voting.protocol import effects
from libs.voting.protocol_run import Finish, Run

LAST_READ_WAIT_S: Final = 0.5
"""Wait for one read of the fold after `SETTLE_WAIT_S` has passed."""


class Driver:
    """Runs protocols. Each effect gets exactly one reply, by a deadline.

    `GroupCommit` performs the usual effects of votes in groups. All others are performed here, one by one.
    """

    def __init__(
        self,
        topic: Log,
        views: VoteViews,
        addresses: AddressCounters,
        contests: ContestCache,
        log: GroupAppender,
        read_cast: ReadCast,
        tracing: Tracing | None = None,
    ) -> None:
        self._views = views
        self._contests = contests
        self._read_cast = read_cast
        self._tracing = tracing
        self._addresses = addresses
        self._groups = GroupCommit(topic, views, log, self._take_together, self._perform, tracing)
        self._watch = PartitionWaiting(views)
        self._tasks: set[asyncio.Task[Any]] = set()
        self._put: dict[tuple[int, int, str, int, int], asyncio.Task[bool]] = {}
        self._effects: Final[dict[type, Callable[[Run, Any], Awaitable[Any]]]] = {
            effects.TakeAddress: self._take_counters,
            effects.AwaitRecord: self._await_record,
            effects.AwaitVote: self._await_vote,
            effects.AwaitGate: self._await_gate,
            effects.ReserveRemoval: self._reserve_removal,
            effects.Release: self._release,
            effects.GiveAddress: self._give_address,
            effects.LoadContest: self._load_contest,
            effects.PutInForce: self._put_in_force,
            effects.ReadVote: self._read_vote,
            effects.ReadCast: self._read_folded,
        }

    def new_run(
        self,
        steps: effects.Steps[Any],
        account: str,
        command: CastVote | RemoveVote,
        partition: int,
        finish: Finish,
    ) -> Run:
        """Return a protocol about the vote of `command`, to `start`."""
        context = copy_context() if self._tracing is not None and is_traced() else None
        return Run(steps, account, command, partition, finish, context)

    def start(self, runs: Sequence[Run]) -> None:
        """Start the runs of one voter in a request: each is decided and recorded after those before it."""
        self._groups.start(runs)

    def _perform(self, run: Run) -> None:
        """Perform an effect by itself; its result or error is the reply."""
        waiting = asyncio.ensure_future(self._effects[type(run.effect)](run, run.effect))
        if isinstance(waiting, asyncio.Task):
            self._tasks.add(waiting)
            waiting.add_done_callback(self._tasks.discard)
        waiting.add_done_callback(partial(self._ended, run))

    def _ended(self, run: Run, future: "asyncio.Future[Any]") -> None:
        error = _recovering() if future.cancelled() else future.exception()
        self._groups.reply(run, future.result() if error is None else error)

    def _take_together(self, run: Run, effect: effects.TakeAddress) -> Take | None:
        return None if len(effect.votes) > 1 or self._views.is_cluster else self._takes(run, effect)[0]

    def _takes(self, run: Run, effect: effects.TakeAddress) -> list[Take]:
        command, contest = run.command, effect.contest
        assert isinstance(command, CastVote)
        limit, expires_at_s = contest.ip_restriction_per_participant, _expiry(contest)
        return [
            Take((contest.key, participant, command.address or ""), effect.taker, votes, limit, expires_at_s)
            for participant, votes in effect.votes
        ]

    async def _take_counters(self, run: Run, effect: effects.TakeAddress) -> effects.AddressTaken:
        return await take_all(self._addresses, self._takes(run, effect))

    def _await_record(self, run: Run, effect: effects.AwaitRecord) -> Awaitable[VoteState | None]:
        """Wait until the run's deadline, or after it, for one read of the fold.

        A wait for a gate after it may last until the run's deadline.
        """
        deadline = max(run.settle_deadline, run.loop.time() + LAST_READ_WAIT_S)
        vote = Undecided(run.name, effect.is_decided, effect.incarnation, effect.offset)
        run.gate_deadline = run.settle_deadline
        return self._watch.wait_for_vote(run.partition, vote, deadline)

    def _await_vote(self, run: Run, effect: effects.AwaitVote) -> Awaitable[VoteState | None]:
        vote = Undecided(run.name, effect.is_decided)
        return self._watch.wait_for_vote(run.partition, vote, run.gate_deadline, effect.since)

    def _await_gate(self, run: Run, effect: effects.AwaitGate) -> Awaitable[FoldProgress | None]:
        return self._watch.wait_for_gate(run.partition, effect.since, run.gate_deadline)

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
        """Give back; a failure changes nothing: counters expire."""
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


def _recovering() -> ViewsUnavailable:
    return ViewsUnavailable(RECOVERING, retry_after_s=1)


def _expiry(contest: Contest) -> int:
    """Return when an address's counter may expire (s since 1970): a day after the contest's end."""
    if contest.end is not None:
        return contest.end // 1_000_000 + 86_400
    return int(time.time()) + ADDRESS_LIFE_S
