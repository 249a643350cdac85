"""One vote from its form to its answer: reserve, record, confirm; and when in doubt, ask the fold."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, assert_never

from libs.contracts.codec import vote_codec
from libs.contracts.log import Appended
from libs.contracts.pseudonyms import receipt
from libs.contracts.topics import Topic
from libs.kafka.errors import AppendUnknown, NotAppended
from libs.tally.admission import (
    Declined,
    Granted,
    Known,
    NotRunning,
    OverLimit,
    Request,
    Reused,
    Shut,
    Stale,
)
from libs.tally.commands import CastVote
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    ContestNotRunning,
    IdempotencyKeyReused,
    LedgerCatchingUp,
    LimitReached,
    LimitScope,
    LogUnavailable,
    TallyError,
    ViewsUnavailable,
)
from libs.tally.events import VoteCast
from libs.tally.rules import own_refusal
from libs.views.addresses import AddressCounters, Taken
from libs.views.votes import VoteViews
from services.ingestion.contests import Contests
from services.ingestion.reserver import Confirmer, Reserver

GATE_WAIT_S = 2.0
"""How long a request waits for a shut gate, or for a fresh configuration, before it says so."""
SETTLE_WAIT_S = 8.0
"""How long a request in doubt waits for the fold: a send's deadline, a fence, and the fold up to it."""
POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Accepted:
    """A vote in the log that counts. `replayed`: an earlier request was the first to be told so."""

    command: CastVote
    replayed: bool
    accepted_at: int
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    receipt: str
    partition: int
    offset: int


class Log(Protocol):
    """What casting needs of the log writer."""

    async def append(self, topic: str, partition: int, value: bytes, key: bytes | None = None) -> Appended: ...


@dataclass(frozen=True, slots=True)
class Caster:
    """Casts votes. Every error raised is a `TallyError`; a 503 kind leaves the vote id free to be sent again."""

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    log: Log
    contests: Contests
    reserver: Reserver
    confirmer: Confirmer
    server_key: bytes

    async def cast(self, account: str, command: CastVote) -> Accepted:
        """Answer a first acceptance, or its repetition; raise the refusal, or that the outcome is unknown."""
        partition = self.topic.partition_of(command.voter)
        loop = asyncio.get_running_loop()
        gate_deadline = loop.time() + GATE_WAIT_S
        settle_deadline = loop.time() + SETTLE_WAIT_S
        doubted = False
        while True:
            contest = await self.contests.get(account, command.contest)
            refusal = own_refusal(contest, command)
            taken = False
            if refusal is None and _counts_address(contest, command):
                refusal, taken = await self._take_address(contest, command)
            answer = await self.reserver.reserve(partition, _request(contest, command, refusal))
            if isinstance(answer, Granted):
                accepted = await self._record(command, partition, answer, settle_deadline)
                if accepted is not None:
                    return accepted
                doubted = True
                await _wait(settle_deadline, LogUnavailable("The vote was not recorded.", retry_after_s=1))
                continue
            if taken:
                await self._give_address(command)
            if isinstance(answer, Known):
                return self._known(command, partition, answer, replayed=not doubted)
            if isinstance(answer, Shut):
                await _wait(gate_deadline, LedgerCatchingUp("Earlier votes are being settled.", retry_after_s=1))
            elif isinstance(answer, Stale):
                await self._refresh(account, contest, partition, answer, gate_deadline)
            else:
                raise _refused(contest, command, answer, refusal)

    async def _record(
        self, command: CastVote, partition: int, granted: Granted, deadline: float
    ) -> Accepted | None:
        """Record a reserved vote; None when it was fenced off, and may be reserved again."""
        event = self._event(command, granted)
        value = vote_codec.encode(event)
        try:
            landed = await self.log.append(self.topic.name, partition, value, event.voter.encode())
        except NotAppended:
            await self.views.release(
                partition, command.contest, command.voter, command.vote_id, granted.incarnation
            )
            await self._give_address(command)
            raise
        except AppendUnknown:
            return await self._settle(command, partition, granted, deadline)
        try:
            confirmed = await self.confirmer.confirm(partition, granted.incarnation)
        except ViewsUnavailable:
            confirmed = False
        if not confirmed or not landed.exact:
            return await self._settle(command, partition, granted, deadline)
        return _accepted(command, event, granted.joined, partition, landed.offset)

    async def _settle(
        self, command: CastVote, partition: int, granted: Granted, deadline: float
    ) -> Accepted | None:
        """Wait until the fold shows the vote, or a fence without it (None).

        What the fold shows may be another attempt's record, so its answer is the one to give; after a fence even
        that of a request with other content, for which this one came too late.
        """
        unknown = LogUnavailable("Whether the vote was recorded is not known yet.", retry_after_s=2)
        while True:
            try:
                state = await self.views.lookup(partition, command.contest, command.voter, command.vote_id)
            except ViewsUnavailable:
                await _wait(deadline, unknown)
                continue
            if state.status is not None and state.accepted_at is not None and state.offset is not None:
                if state.content != command.content:
                    raise _reused(command)
                known = Known(
                    state.accepted_at,
                    state.remaining_participant,
                    state.remaining_contest,
                    state.next_free_vote_at,
                    state.offset,
                    state.status,
                )
                return self._known(command, partition, known, replayed=granted.joined)
            if state.open and state.incarnation != granted.incarnation:
                return None
            await _wait(deadline, unknown)

    async def _refresh(
        self, account: str, contest: Contest, partition: int, stale: Stale, deadline: float
    ) -> None:
        """Load the contest again, and put its version in force where none is."""
        fresh = await self.contests.reload(account, contest.key)
        if stale.in_force is None or stale.in_force < fresh.version:
            await self.views.raise_config(partition, contest.key, fresh.version, stale.incarnation)
        elif stale.in_force > fresh.version:
            late = ViewsUnavailable("The contest's new configuration is not readable yet.", retry_after_s=1)
            await _wait(deadline, late)

    async def _take_address(self, contest: Contest, command: CastVote) -> tuple[TallyError | None, bool]:
        (participant, count), limit = command.choices[0], contest.ip_restriction_per_participant
        expires = None if contest.end is None else contest.end // 1_000_000 + 86_400
        answer = await self.addresses.take(
            command.contest, participant, command.address or "", command.vote_id, count, limit, expires
        )
        if answer.taken is Taken.FULL:
            return LimitReached(LimitScope.IP, limit, answer.used), False
        return None, answer.taken is Taken.TAKEN

    async def _give_address(self, command: CastVote) -> None:
        """Nothing of the vote is in the log, nor will be. Advisory: a counter has a life of its own."""
        if command.address is not None:
            with suppress(ViewsUnavailable):
                await self.addresses.give(command.contest, command.choices[0][0], command.address, command.vote_id)

    def _event(self, command: CastVote, granted: Granted) -> VoteCast:
        return VoteCast(
            contest=command.contest,
            voter=command.voter,
            anonymous=command.anonymous,
            vote_id=command.vote_id,
            content=command.content,
            source=command.source,
            choices=command.choices,
            accepted_at=granted.accepted_at,
            incarnation=granted.incarnation,
            config=granted.config,
            max_participant=granted.max_participant,
            max_contest=granted.max_contest,
            epoch=granted.epoch,
            remaining_participant=granted.remaining_participant,
            remaining_contest=granted.remaining_contest,
            next_free_vote_at=granted.next_free_vote_at,
            receipt=receipt(self.server_key, command.contest, command.voter, command.vote_id),
            platform=command.platform,
            address=command.address,
        )

    def _known(self, command: CastVote, partition: int, known: Known, *, replayed: bool) -> Accepted:
        return Accepted(
            command,
            replayed,
            known.accepted_at,
            known.remaining_participant,
            known.remaining_contest,
            known.next_free_vote_at,
            receipt(self.server_key, command.contest, command.voter, command.vote_id),
            partition,
            known.offset,
        )


def _request(contest: Contest, command: CastVote, refusal: TallyError | None) -> Request:
    participant, count = command.choices[0]
    return Request(
        contest=contest,
        voter=command.voter,
        vote_id=command.vote_id,
        content=command.content,
        source=command.source,
        participant=participant,
        count=count,
        declined=refusal is not None,
    )


def _accepted(command: CastVote, event: VoteCast, replayed: bool, partition: int, offset: int) -> Accepted:
    return Accepted(
        command,
        replayed,
        event.accepted_at,
        event.remaining_participant,
        event.remaining_contest,
        event.next_free_vote_at,
        event.receipt,
        partition,
        offset,
    )


def _refused(
    contest: Contest,
    command: CastVote,
    answer: Reused | NotRunning | Declined | OverLimit,
    refusal: TallyError | None,
) -> TallyError:
    match answer:
        case Reused():
            return _reused(command)
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case Declined():
            assert refusal is not None
            return refusal
        case OverLimit(scope, limit, used, next_free_vote_at):
            return LimitReached(scope, limit, used, next_free_vote_at)
        case _:
            assert_never(answer)


def _reused(command: CastVote) -> TallyError:
    return IdempotencyKeyReused(f"Vote id {command.vote_id} was used by this voter for another vote.")


def _counts_address(contest: Contest, command: CastVote) -> bool:
    return (
        command.address is not None
        and command.source == "c-free"
        and contest.ip_restriction_per_participant != UNLIMITED
    )


async def _wait(deadline: float, otherwise: TallyError) -> None:
    if asyncio.get_running_loop().time() + POLL_S > deadline:
        raise otherwise
    await asyncio.sleep(POLL_S)
