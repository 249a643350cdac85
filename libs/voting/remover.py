"""Votes taken back: by their voters, or with the purchase that paid for them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Literal, Protocol

from libs.contracts.actors import CURRENT
from libs.contracts.codec import vote_codec
from libs.contracts.log_records import LogRecord
from libs.contracts.topics import Topic
from libs.kafka.errors import AppendUnknown, NotAppended
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    ContestNotRunning,
    LedgerCatchingUp,
    LogUnavailable,
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
from libs.views.replies import Progress, Refund, VoteName, VoteState
from libs.views.votes import VoteViews
from libs.voting.batching import ConfirmationBatcher
from libs.voting.contest_cache import ContestCache, refresh
from libs.voting.partition_watch import PartitionWatch, Undecided
from libs.voting.recorder import Log, name_of
from libs.voting.timeouts import GATE_WAIT_S, POLL_S, READ_WAIT_S, SETTLE_WAIT_S
from libs.voting.vote_attempt import RECOVERING

UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED
"""What a vote may be before its removal is folded."""
CastReader = Callable[[int, int], Awaitable[VoteCast | None]]
"""Reads the vote at a partition and offset of the log. Raises `LogUnavailable`, after a while at most."""


class RecordReader(Protocol):
    """What is needed of the log to read single records."""

    async def record(self, topic: str, partition: int, offset: int, wait_s: float) -> LogRecord: ...


def cast_reader(reader: RecordReader, topic: Topic) -> CastReader:
    async def read(partition: int, offset: int) -> VoteCast | None:
        record = await reader.record(topic.name, partition, offset, READ_WAIT_S)
        event = vote_codec.decode(record.value)
        return event if isinstance(event, VoteCast) else None

    return read


@dataclass(frozen=True, slots=True)
class Removed:
    """A vote that counts no more. `offset` is where the log says so, None where it had said so before."""

    partition: int
    offset: int | None


@dataclass(frozen=True, slots=True)
class Remover:
    """Removals go the way of votes: reserved, appended, confirmed; and when in doubt, the fold is asked.

    A refusal of a 503 kind leaves the vote as it was, or removed: asking again tells.
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
        """Take back a free vote as its voter asks; one that counts no more already is fine.

        One that an operator voided is refused: it could be restored, and what it uses stays used.
        Raises `NotFound`, `VoteRemovalNotAllowed`, `ContestNotRunning`, and the 503 kinds.
        """
        partition = self.topic.partition_of(command.voter)
        contest = await self.contests.get(account, command.contest)
        cast: VoteCast | None = None

        async def ask() -> RemovalAnswer:
            nonlocal contest, cast
            if cast is None:
                # first: what is reserved holds up others until it is recorded
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

        return await self._settled(partition, command, ask, event)

    async def refund(self, command: CastVote) -> None:
        """Take back a paid vote at any time. One that never came is used up, so that no attempt can cast it later.

        Behind the contest's close it waits for a reopening. Raises the 503 kinds alone.
        """
        partition = self.topic.partition_of(command.voter)
        refund = Refund(command.anonymous, command.content, command.source)

        async def ask() -> RemovalAnswer:
            return await self.views.refund(partition, command.contest, command.voter, command.vote_id, refund)

        def event(granted: RemovalGranted) -> VoteRemoved:
            return _event(command, granted, "refund", None)

        await self._settled(partition, command, ask, event)

    async def _settled(
        self,
        partition: int,
        command: RemoveVote | CastVote,
        ask: Callable[[], Awaitable[RemovalAnswer]],
        event: Callable[[RemovalGranted], VoteRemoved],
    ) -> Removed:
        """Ask, and record what is granted, until it is decided; what was fenced off is asked for again."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        seen: Progress | None = None
        while True:
            match await ask():
                case RemovalGranted() as granted:
                    removed = await self._record(partition, event(granted))
                    if removed is not None:
                        return removed
                    if loop.time() + POLL_S > began + SETTLE_WAIT_S:
                        raise LogUnavailable("The removal was not recorded.", retry_after_s=1)
                case NotCounted():
                    return Removed(partition, None)
                case GateClosed():
                    seen = await self.watch.wait_for_gate(partition, seen, began + GATE_WAIT_S)
                    if seen is None:
                        raise LedgerCatchingUp(RECOVERING, retry_after_s=1)
                case NotFolded():
                    vote = Undecided(name_of(command), _is_not_pending)
                    state = await self.watch.wait_for_vote(partition, vote, began + GATE_WAIT_S, seen)
                    if state is None:
                        undecided = "The vote itself is not recorded yet; retry shortly."
                        raise LedgerCatchingUp(undecided, retry_after_s=1)
                    seen = state.progress
                case answer:
                    raise AssertionError(f"neither granted nor to be waited for: {answer}")

    async def _cast_with_address(self, contest: Contest, partition: int, command: RemoveVote) -> VoteCast | None:
        """The vote's own record, where an address's limit may have room again. Advisory, as that limit is."""
        if contest.ip_restriction_per_participant == UNLIMITED or not contest.is_vote_removal_allowed:
            return None
        with suppress(LogUnavailable, ViewsUnavailable):
            state = await self.views.lookup(partition, *name_of(command))
            if state.status is VoteStatus.COUNTED and state.offset is not None:
                return await self.read_cast(partition, state.offset)
        return None

    async def _record(self, partition: int, event: VoteRemoved) -> Removed | None:
        """Append and confirm; None where it was fenced off and may be asked for again."""
        name = VoteName(event.contest, event.voter, event.vote_id)
        removed, offset = None, None
        try:
            place = await self.log.submit(
                self.topic.name, partition, vote_codec.encode(event), event.voter.encode()
            )
        except NotAppended:
            with suppress(ViewsUnavailable):  # a reservation that stays is in doubt, and a fence ends it
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
            unknown = "Whether the vote was removed is not known yet; ask again."
            raise LogUnavailable(unknown, retry_after_s=2)
        return Removed(partition, None) if is_removed(state) else None


def is_removed(state: VoteState) -> bool:
    """Whether the fold shows the removal; that of a voided vote does not, since it could still be restored."""
    return state.removal_waits or state.status not in UNDECIDED


def _is_not_pending(state: VoteState) -> bool:
    return not state.pending


def _event(
    command: RemoveVote | CastVote,
    granted: RemovalGranted,
    reason: Literal["voter", "refund"],
    cast: VoteCast | None,
) -> VoteRemoved:
    """`cast`, the record of the vote, gives the address that has room again."""
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
    """The current one without its address, which is a voter's as a rule."""
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
                "An operator took this vote out: it counts no more, and what it used stays used."
            )
        case Paid():
            return VoteRemovalNotAllowed("A paid vote is taken back with its purchase only.")
    return None
