"""Removes votes: on their voter's request, or with the refund of the purchase that paid for them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from libs.contracts.actors import CURRENT
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Topic
from libs.contracts.vote_states import Progress, VoteName, VoteState
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    AppendUnknown,
    ContestNotRunning,
    LedgerCatchingUp,
    LogUnavailable,
    NotAppended,
    NotFound,
    TallyError,
    ViewsUnavailable,
    VoteRemovalNotAllowed,
)
from libs.tally.events import Actor, VoteCast, VoteRemoved
from libs.tally.reservations import (
    GateClosed,
    NotCounted,
    NotFolded,
    NotRunning,
    Paid,
    RefusedByCaller,
    RemovalAnswer,
    RemovalGranted,
    Stale,
    Unknown,
)
from libs.tally.voter_ledger import VoteStatus
from libs.views.address_counters import AddressCounters, give_back
from libs.views.replies import Refund
from libs.views.votes import VoteViews
from libs.voting.batching import ConfirmationBatcher
from libs.voting.contest_cache import ContestCache, refresh
from libs.voting.partition_watch import PartitionWatch, Undecided
from libs.voting.recorder import Log, name_of
from libs.voting.timeouts import GATE_WAIT_S, POLL_S, READ_WAIT_S, SETTLE_WAIT_S
from libs.voting.vote_attempt import RECOVERING

UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED
"""Statuses of a vote whose removal is not folded yet."""
CastReader = Callable[[int, int], Awaitable[VoteCast | None]]
"""Reads the vote at a partition and offset of the log. Raises `LogUnavailable` within `READ_WAIT_S`."""


class RecordReader(Protocol):
    """Interface of the log reader that reads single records."""

    async def record(self, topic: str, partition: int, offset: int, wait_s: float) -> LogRecord: ...


def cast_reader(reader: RecordReader, topic: Topic) -> CastReader:
    async def read(partition: int, offset: int) -> VoteCast | None:
        record = await reader.record(topic.name, partition, offset, READ_WAIT_S)
        event = vote_codec.decode(record.value)
        return event if isinstance(event, VoteCast) else None

    return read


@dataclass(frozen=True, slots=True)
class Removed:
    """A vote that no longer counts. `offset` is that of its removal in the log, None if it was removed before."""

    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Remover:
    """Removes votes as they are cast: reserve, append, confirm, and in doubt wait for the fold.

    After an error with status 503 the vote may or may not be removed; repeat the request.
    """

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    contests: ContestCache
    log: Log
    confirmations: ConfirmationBatcher
    watch: PartitionWatch
    read_cast: CastReader

    async def remove(self, account: str, command: RemoveVote) -> Removed:
        """Remove a free vote on its voter's request. Repeatable: a vote that no longer counts is no error.

        A voided vote cannot be removed: it may be restored, and its allowance stays used.
        Raises `NotFound`, `VoteRemovalNotAllowed`, `ContestNotRunning`, and errors with status 503.
        """
        partition = self.topic.partition_of(command.voter)
        contest = await self.contests.get(account, command.contest)
        cast: VoteCast | None = None

        async def ask() -> RemovalAnswer:
            nonlocal contest, cast
            if cast is None:
                # read first: a reserved removal delays other requests until it is recorded
                cast = await self._cast_with_address(contest, partition, command)
            deadline = asyncio.get_running_loop().time() + GATE_WAIT_S
            while True:
                contest = await self.contests.get(account, command.contest)
                declined = not contest.is_vote_removal_allowed
                answer = await self.views.remove(partition, contest, command.voter, command.vote_id, declined)
                if not isinstance(answer, Stale):
                    break
                await refresh(self.views, self.contests, account, contest, {partition: answer}, deadline)
            if (refusal := _refusal(contest, command, answer)) is not None:
                raise refusal
            return answer

        def event(granted: RemovalGranted) -> VoteRemoved:
            return _event(command, granted, "voter", cast)

        return await self._run(partition, command, ask, event)

    async def refund(self, command: CastVote) -> None:
        """Remove a paid vote at any time. An id that was never cast is used up, so no attempt can cast it later.

        After the contest's close the removal waits for a reopening. Raises only errors with status 503.
        """
        partition = self.topic.partition_of(command.voter)
        refund = Refund(command.anonymous, command.content, command.source)

        async def ask() -> RemovalAnswer:
            return await self.views.refund(partition, command.contest, command.voter, command.vote_id, refund)

        def event(granted: RemovalGranted) -> VoteRemoved:
            return _event(command, granted, "refund", None)

        await self._run(partition, command, ask, event)

    async def _run(
        self,
        partition: int,
        command: RemoveVote | CastVote,
        ask: Callable[[], Awaitable[RemovalAnswer]],
        event: Callable[[RemovalGranted], VoteRemoved],
    ) -> Removed:
        """Reserve with `ask` and record the `event`, and again after a fence, until the removal is decided."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        seen: Progress | None = None
        while True:
            match await ask():
                case RemovalGranted() as granted:
                    removed = await self._record(partition, event(granted))
                    if removed is not None:
                        return removed
                    if loop.time() + POLL_S > started + SETTLE_WAIT_S:
                        raise LogUnavailable("The removal was not recorded.", retry_after_s=1)
                case NotCounted():
                    return Removed(partition, None)
                case GateClosed():
                    seen = await self.watch.wait_for_gate(partition, seen, started + GATE_WAIT_S)
                    if seen is None:
                        raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
                case NotFolded():
                    vote = Undecided(name_of(command), _is_not_pending)
                    state = await self.watch.wait_for_vote(partition, vote, started + GATE_WAIT_S, seen)
                    if state is None:
                        undecided = "The vote to remove is still being recorded; retry shortly."
                        raise LedgerCatchingUp(undecided, retry_after_s=1)
                    seen = state.progress
                case answer:
                    raise AssertionError(f"unexpected answer to a removal: {answer}")

    async def _cast_with_address(self, contest: Contest, partition: int, command: RemoveVote) -> VoteCast | None:
        """Read the vote's record if its address's limit applies, to give its votes back. Best effort."""
        if contest.ip_restriction_per_participant == UNLIMITED or not contest.is_vote_removal_allowed:
            return None
        with suppress(LogUnavailable, ViewsUnavailable):
            state = await self.views.lookup(partition, *name_of(command))
            if state.status is VoteStatus.COUNTED and state.offset is not None:
                return await self.read_cast(partition, state.offset)
        return None

    async def _record(self, partition: int, event: VoteRemoved) -> Removed | None:
        """Append and confirm the removal; None if it was fenced off and may be reserved again."""
        name = VoteName(event.contest, event.voter, event.vote_id)
        removed, offset = None, None
        try:
            place = await self.log.submit(
                self.topic.name, partition, vote_codec.encode(event), event.voter.encode()
            )
        except NotAppended:
            with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
                await self.views.release_removal(partition, *name, event.incarnation)
            raise
        except AppendUnknown:
            pass
        else:
            offset = place.offset if place.exact else None
            with suppress(ViewsUnavailable):
                if await self.confirmations.confirm(partition, event.incarnation) and offset is not None:
                    removed = Removed(partition, offset)
        if removed is None:
            removed = await self._wait_for_fold(partition, Undecided(name, is_removed, event.incarnation, offset))
        if removed is not None:
            with suppress(ViewsUnavailable):
                await give_back(self.addresses, event)
        return removed

    async def _wait_for_fold(self, partition: int, removal: Undecided) -> Removed | None:
        deadline = asyncio.get_running_loop().time() + SETTLE_WAIT_S
        state = await self.watch.wait_for_vote(partition, removal, deadline)
        if state is None:
            unknown = "The vote may or may not have been removed; send the request again."
            raise LogUnavailable(unknown, retry_after_s=2)
        return Removed(partition, None) if is_removed(state) else None


def is_removed(state: VoteState) -> bool:
    """Return whether the removal is folded; a voided vote is not removed, since it may be restored."""
    return state.removal_waits or state.status not in UNDECIDED


def _is_not_pending(state: VoteState) -> bool:
    return not state.pending


def _event(
    command: RemoveVote | CastVote,
    granted: RemovalGranted,
    reason: Literal["voter", "refund"],
    cast: VoteCast | None,
) -> VoteRemoved:
    """Build the removal's event; `cast` is the vote's record, whose address gets its votes back."""
    return VoteRemoved(
        contest=command.contest,
        voter=command.voter,
        anonymous=granted.anonymous,
        vote_id=command.vote_id,
        content=granted.content,
        source=granted.source,
        incarnation=granted.incarnation,
        removed_at=granted.removed_at,
        reason=reason,
        address=None if cast is None else cast.address,
        participants=() if cast is None else tuple(participant for participant, _ in cast.choices),
        actor=_actor(),
    )


def _actor() -> Actor | None:
    """Return the current actor without its address, which is usually a voter's."""
    actor = CURRENT.get()
    return None if actor is None else replace(actor, origin="")


def _refusal(contest: Contest, command: RemoveVote, answer: RemovalAnswer) -> TallyError | None:
    match answer:
        case Unknown():
            return NotFound(f"This voter has no accepted vote {command.vote_id}.")
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case RefusedByCaller():
            return VoteRemovalNotAllowed("This contest does not allow votes to be removed.")
        case NotCounted(VoteStatus.VOIDED):
            return VoteRemovalNotAllowed(
                "An operator voided this vote: it no longer counts, and the allowance that it used stays used."
            )
        case Paid():
            return VoteRemovalNotAllowed("A paid vote is removed only by the refund of its purchase.")
    return None
