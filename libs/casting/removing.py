"""Votes taken back: by their voters, or with the purchase that paid for them."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, Protocol

from libs.casting.contests import Contests, refresh
from libs.casting.recording import Log
from libs.casting.reserver import Confirmer
from libs.casting.waiting import GATE_WAIT_S, POLL_S, SETTLE_WAIT_S
from libs.contracts.codec import vote_codec
from libs.contracts.log import LogRecord
from libs.contracts.topics import Topic
from libs.kafka.errors import AppendUnknown, NotAppended
from libs.tally.admission import (
    Declined,
    NotCounted,
    NotFolded,
    NotRunning,
    Paid,
    RemovalAnswer,
    RemovalGranted,
    Shut,
    Stale,
    Unknown,
)
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
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.standing import VoteStatus
from libs.views.addresses import AddressCounters, give_back
from libs.views.states import Refund
from libs.views.votes import VoteViews

UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED
"""What a vote may be before its removal is folded; a voided one could still be restored."""
CastReader = Callable[[int, int], Awaitable[VoteCast | None]]
"""Reads the vote at a partition and offset of the log. Raises `LogUnavailable`."""


class RecordReader(Protocol):
    """What is needed of the log to read single records."""

    async def record(self, topic: str, partition: int, offset: int) -> LogRecord: ...


def cast_reader(reader: RecordReader, topic: Topic) -> CastReader:
    async def read(partition: int, offset: int) -> VoteCast | None:
        record = await reader.record(topic.name, partition, offset)
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
    contests: Contests
    log: Log
    confirmer: Confirmer
    read_cast: CastReader

    async def remove(self, account: str, command: RemoveVote) -> Removed:
        """Take back a free vote as its voter asks; one that counts no more already is fine.

        One that an operator voided is refused: it could be restored, and what it uses stays used.
        Raises `NotFound`, `VoteRemovalNotAllowed`, `ContestNotRunning`, and the 503 kinds.
        """
        partition = self.topic.partition_of(command.voter)
        contest = await self.contests.get(account, command.contest)

        async def ask() -> RemovalAnswer:
            nonlocal contest
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

        async def event(granted: RemovalGranted) -> VoteRemoved:
            cast = await self._cast_with_address(contest, partition, granted)
            return _event(command, granted, "voter", cast)

        return await self._settled(partition, ask, event)

    async def refund(self, command: CastVote) -> None:
        """Take back a paid vote at any time. One that never came is used up, so that no attempt can cast it later.

        Behind the contest's close it waits for a reopening. Raises the 503 kinds alone.
        """
        partition = self.topic.partition_of(command.voter)
        refund = Refund(command.anonymous, command.content, command.source)

        async def ask() -> RemovalAnswer:
            return await self.views.refund(partition, command.contest, command.voter, command.vote_id, refund)

        async def event(granted: RemovalGranted) -> VoteRemoved:
            return _event(command, granted, "refund", None)

        await self._settled(partition, ask, event)

    async def _settled(
        self,
        partition: int,
        ask: Callable[[], Awaitable[RemovalAnswer]],
        event: Callable[[RemovalGranted], Awaitable[VoteRemoved]],
    ) -> Removed:
        """Ask, and record what is granted, until it is decided; what was fenced off is asked for again."""
        began = asyncio.get_running_loop().time()
        late: TallyError
        while True:
            match await ask():
                case RemovalGranted() as granted:
                    removed = await self._record(partition, await event(granted))
                    if removed is not None:
                        return removed
                    patience, late = (
                        SETTLE_WAIT_S,
                        LogUnavailable("The removal was not recorded.", retry_after_s=1),
                    )
                case NotCounted():
                    return Removed(partition, None)
                case Shut():
                    patience, late = (
                        GATE_WAIT_S,
                        LedgerCatchingUp("Earlier votes are being settled.", retry_after_s=1),
                    )
                case NotFolded():
                    undecided = "The vote itself is not decided yet."
                    patience, late = GATE_WAIT_S, LedgerCatchingUp(undecided, retry_after_s=1)
                case answer:
                    raise AssertionError(f"neither granted nor to be waited for: {answer}")
            if asyncio.get_running_loop().time() + POLL_S > began + patience:
                raise late
            await asyncio.sleep(POLL_S)

    async def _cast_with_address(
        self, contest: Contest, partition: int, granted: RemovalGranted
    ) -> VoteCast | None:
        """The vote's own record, where an address's limit may have room again. Advisory, as that limit is."""
        if granted.offset is None or contest.ip_restriction_per_participant == UNLIMITED:
            return None
        with suppress(LogUnavailable):
            return await self.read_cast(partition, granted.offset)
        return None

    async def _record(self, partition: int, event: VoteRemoved) -> Removed | None:
        """Append and confirm; None where it was fenced off and may be asked for again."""
        name = event.contest, event.voter, event.vote_id
        removed = None
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
            with suppress(ViewsUnavailable):
                if await self.confirmer.confirm(partition, event.incarnation) and place.exact:
                    removed = Removed(partition, place.offset)
        removed = removed or await self._wait_for_fold(partition, event)
        if removed is not None:
            with suppress(ViewsUnavailable):
                await give_back(self.addresses, event)
        return removed

    async def _wait_for_fold(self, partition: int, event: VoteRemoved) -> Removed | None:
        deadline = asyncio.get_running_loop().time() + SETTLE_WAIT_S
        while True:
            with suppress(ViewsUnavailable):
                state = await self.views.lookup(partition, event.contest, event.voter, event.vote_id)
                if state.removal_waits or state.status not in UNDECIDED:
                    return Removed(partition, None)
                if state.open and state.incarnation != event.incarnation:
                    return None
            if asyncio.get_running_loop().time() + POLL_S > deadline:
                unknown = "Whether the vote was removed is not known yet; ask again."
                raise LogUnavailable(unknown, retry_after_s=2)
            await asyncio.sleep(POLL_S)


def _event(
    command: RemoveVote | CastVote,
    granted: RemovalGranted,
    reason: Literal["voter", "refund"],
    cast: VoteCast | None,
) -> VoteRemoved:
    """`cast` gives the address that has room again."""
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
    )


def _refusal(contest: Contest, command: RemoveVote, answer: RemovalAnswer) -> TallyError | None:
    match answer:
        case Unknown():
            return NotFound(f"This voter has no accepted vote {command.vote_id}.")
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case Declined():
            return VoteRemovalNotAllowed("This contest does not allow votes to be removed.")
        case NotCounted(VoteStatus.VOIDED):
            return VoteRemovalNotAllowed(
                "An operator took this vote out: it counts no more, and what it used stays used."
            )
        case Paid():
            return VoteRemovalNotAllowed("A paid vote is taken back with its purchase only.")
    return None
