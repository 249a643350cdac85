"""Votes from their form to their answer, in rounds: judge, reserve, record; what is left open goes again."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from libs.casting.attempts import Attempt, Outcome
from libs.casting.contests import Contests
from libs.casting.recording import POLL_S, Recorder, reused
from libs.casting.reserver import Reserver
from libs.contracts.problems import Problem, ValidationFailed
from libs.contracts.topics import Topic
from libs.tally.admission import (
    Answer,
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
    LedgerCatchingUp,
    LimitReached,
    LimitScope,
    LogUnavailable,
    TallyError,
    ViewsUnavailable,
)
from libs.tally.rules import own_refusal
from libs.views.addresses import AddressCounters, Taken
from libs.views.votes import VoteViews

GATE_WAIT_S = 2.0
"""How long a vote waits for a shut gate, or for a fresh configuration, before it is told so."""
SETTLE_WAIT_S = 8.0
"""How long a vote in doubt waits for the fold: a send's deadline, a fence, and the fold up to it."""


@dataclass(frozen=True, slots=True)
class Caster:
    """Casts votes. A refusal of a 503 kind leaves the vote id free to be sent again."""

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    contests: Contests
    reserver: Reserver
    recorder: Recorder

    async def cast(self, account: str, commands: Sequence[CastVote]) -> list[Outcome]:
        """Cast votes of one contest; those of one voter are decided in their order. Raises nothing."""
        now = asyncio.get_running_loop().time()
        attempts = [Attempt(command, self.topic.partition_of(command.voter)) for command in commands]
        left = attempts
        while left:
            try:
                await self._round(account, left, now + SETTLE_WAIT_S, now + GATE_WAIT_S)
            except TallyError as error:
                for attempt in left:
                    if attempt.outcome is None:
                        attempt.outcome = error
            left = [attempt for attempt in left if attempt.outcome is None]
        return [attempt.outcome for attempt in attempts if attempt.outcome is not None]

    async def _round(
        self, account: str, attempts: Sequence[Attempt], settle_deadline: float, gate_deadline: float
    ) -> None:
        contest = await self.contests.get(account, attempts[0].command.contest)
        if contest.contest_type not in ("voteonly", "participation"):
            problem = f"contests of type {contest.contest_type} take no plain votes"
            raise ValidationFailed([Problem("/participant_key", problem)])
        answers = await self._reserve(contest, attempts)
        granted = [
            (attempt, answer)
            for attempt, answer in zip(attempts, answers, strict=True)
            if isinstance(answer, Granted)
        ]
        await self.recorder.record(granted, settle_deadline)
        stale: dict[int, Stale] = {}
        shut: list[Attempt] = []
        for attempt, answer in zip(attempts, answers, strict=True):
            if isinstance(answer, Granted):
                continue
            if attempt.took_address and not isinstance(answer, TallyError):
                await self.recorder.give_address(attempt.command)
            if isinstance(answer, Known):
                attempt.answer_again(answer, self.recorder.server_key, replayed=not attempt.doubted)
            elif isinstance(answer, Stale):
                stale[attempt.partition] = answer
            elif isinstance(answer, Shut):
                shut.append(attempt)
            else:
                attempt.outcome = _refused(contest, attempt, answer)
        doubted = [attempt for attempt, _ in granted if attempt.outcome is None]
        await _wait(doubted, settle_deadline, LogUnavailable("The vote was not recorded.", retry_after_s=1))
        await _wait(shut, gate_deadline, LedgerCatchingUp("Earlier votes are being settled.", retry_after_s=1))
        if stale:
            await self._refresh(account, contest, stale, gate_deadline)

    async def _reserve(self, contest: Contest, attempts: Sequence[Attempt]) -> list[Answer | TallyError]:
        """Judge by the contest's configuration, take from the addresses, then ask the ledger, in order."""
        from_addresses: list[Attempt] = []
        for attempt in attempts:
            attempt.refusal, attempt.took_address = own_refusal(contest, attempt.command), False
            if attempt.refusal is None and _counts_address(contest, attempt.command):
                from_addresses.append(attempt)
        if from_addresses:
            await asyncio.gather(*(self._take_address(contest, attempt) for attempt in from_addresses))
        futures = [
            self.reserver.reserve(attempt.partition, _request(contest, attempt.command, attempt.refusal))
            for attempt in attempts
        ]
        answers: list[Answer | TallyError] = []
        for future in futures:
            try:
                answers.append(await future)
            except TallyError as error:
                answers.append(error)
        return answers

    async def _take_address(self, contest: Contest, attempt: Attempt) -> None:
        command, limit = attempt.command, contest.ip_restriction_per_participant
        participant, count = command.choices[0]
        expires = None if contest.end is None else contest.end // 1_000_000 + 86_400
        answer = await self.addresses.take(
            command.contest, participant, command.address or "", command.vote_id, count, limit, expires
        )
        attempt.took_address = answer.taken is Taken.TAKEN
        if answer.taken is Taken.FULL:
            attempt.refusal = LimitReached(LimitScope.IP, limit, answer.used)

    async def _refresh(self, account: str, before: Contest, stale: dict[int, Stale], deadline: float) -> None:
        """Load the contest again, and put its version in force where none is."""
        if asyncio.get_running_loop().time() > deadline:
            raise ViewsUnavailable("The contest's configuration keeps changing.", retry_after_s=1)
        fresh = await self.contests.reload(account, before.key)
        older = [
            self.views.raise_config(partition, before.key, fresh.version, answer.incarnation)
            for partition, answer in stale.items()
            if answer.in_force is None or answer.in_force < fresh.version
        ]
        if older:
            await asyncio.gather(*older)
        if fresh.version == before.version or len(older) < len(stale):
            await asyncio.sleep(POLL_S)  # the projector is about to fold what is in force already


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


def _refused(
    contest: Contest, attempt: Attempt, answer: Reused | NotRunning | Declined | OverLimit | TallyError
) -> TallyError:
    match answer:
        case TallyError():
            return answer
        case Reused():
            return reused(attempt.command)
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case Declined():
            assert attempt.refusal is not None
            return attempt.refusal
        case OverLimit(scope, limit, used, next_free_vote_at):
            return LimitReached(scope, limit, used, next_free_vote_at)
        case _:
            assert_never(answer)


def _counts_address(contest: Contest, command: CastVote) -> bool:
    return (
        command.address is not None
        and command.source == "c-free"
        and contest.ip_restriction_per_participant != UNLIMITED
    )


async def _wait(attempts: Sequence[Attempt], deadline: float, otherwise: TallyError) -> None:
    """Give the world a moment before the next round; past the deadline the attempts fail instead."""
    if not attempts:
        return
    if asyncio.get_running_loop().time() + POLL_S > deadline:
        for attempt in attempts:
            attempt.outcome = otherwise
    else:
        await asyncio.sleep(POLL_S)
