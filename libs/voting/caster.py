"""Casts votes in rounds of judge, reserve and record; retries undecided ones until their deadline."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from libs.contracts.topics import Topic
from libs.contracts.vote_states import Progress
from libs.tally.commands import CastVote
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    ContestNotRunning,
    LedgerCatchingUp,
    LimitReached,
    LimitScope,
    LogUnavailable,
    TallyError,
)
from libs.tally.events import address_votes
from libs.tally.reservations import (
    Answer,
    Duplicate,
    GateClosed,
    Granted,
    IdConflict,
    NotRunning,
    OverLimit,
    RefusedByCaller,
    Request,
    Stale,
)
from libs.tally.rules import Selection, judge
from libs.telemetry.tracing import Tracing, step
from libs.views.address_counters import ADDRESS_LIFE_S, AddressCounters, Taken
from libs.views.votes import VoteViews
from libs.voting.batching import ReservationBatcher
from libs.voting.contest_cache import ContestCache, refresh
from libs.voting.partition_watch import PartitionWatch
from libs.voting.recorder import Recorder, reused
from libs.voting.timeouts import GATE_WAIT_S, POLL_S, RESERVE_WAIT_S, SETTLE_WAIT_S
from libs.voting.vote_attempt import RECOVERING, Attempt, Outcome


@dataclass(frozen=True, slots=True)
class Caster:
    """Casts votes. After an error with status 503 the same vote id can be sent again."""

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    contests: ContestCache
    reservations: ReservationBatcher
    recorder: Recorder
    watch: PartitionWatch
    tracing: Tracing | None = None

    async def cast(self, account: str, commands: Sequence[CastVote]) -> list[Outcome]:
        """Cast votes of one contest, those of one voter in their order. Errors are returned, not raised."""
        now = asyncio.get_running_loop().time()
        attempts = [Attempt(command, self.topic.partition_of(command.voter)) for command in commands]
        left, gates = attempts, dict[int, Progress]()
        while left:
            try:
                await self._round(account, left, gates, now + SETTLE_WAIT_S, now + GATE_WAIT_S)
            except TallyError as error:
                for attempt in left:
                    if attempt.outcome is None:
                        attempt.outcome = error
            left = [attempt for attempt in left if attempt.outcome is None]
        return [attempt.outcome for attempt in attempts if attempt.outcome is not None]

    async def _round(
        self,
        account: str,
        attempts: Sequence[Attempt],
        gates: dict[int, Progress],
        settle_deadline: float,
        gate_deadline: float,
    ) -> None:
        """Run one round; `gates` holds the last progress of the partitions whose gates were closed before."""
        contest = await self.contests.get(account, attempts[0].command.contest)
        with step(self.tracing, "reserve"):
            answers = await self._reserve(contest, attempts, settle_deadline)
        granted = [
            (attempt, answer)
            for attempt, answer in zip(attempts, answers, strict=True)
            if isinstance(answer, Granted)
        ]
        await self.recorder.receipts.load()
        await self.recorder.record(granted, settle_deadline)
        stale: dict[int, Stale] = {}
        shut: list[Attempt] = []
        for attempt, answer in zip(attempts, answers, strict=True):
            if isinstance(answer, Granted):
                continue
            if attempt.taken and not isinstance(answer, TallyError):
                await self.recorder.give_address(attempt)
            if isinstance(answer, Duplicate):
                attempt.accept_duplicate(answer, self.recorder.receipts, replayed=not attempt.doubted)
            elif isinstance(answer, Stale):
                stale[attempt.partition] = answer
            elif isinstance(answer, GateClosed):
                shut.append(attempt)
            else:
                attempt.outcome = _refused(contest, attempt, answer)
        if asyncio.get_running_loop().time() + POLL_S > settle_deadline:
            for attempt, _ in granted:
                if attempt.outcome is None:
                    attempt.outcome = LogUnavailable("The vote was not recorded.", retry_after_s=1)
        if shut:
            await self._wait_for_gates(shut, gates, gate_deadline)
        if stale:
            await refresh(self.views, self.contests, account, contest, stale, gate_deadline)

    async def _wait_for_gates(self, shut: Sequence[Attempt], gates: dict[int, Progress], deadline: float) -> None:
        """Wait until each partition's gate opens; at `deadline` the votes of the others fail."""
        opened = {
            partition: self.watch.wait_for_gate(partition, gates.get(partition), deadline)
            for partition in {attempt.partition for attempt in shut}
        }
        for partition, progress in opened.items():
            if (seen := await progress) is not None:
                gates[partition] = seen
        for attempt in shut:
            if opened[attempt.partition].result() is None:
                attempt.outcome = LedgerCatchingUp(RECOVERING, retry_after_s=1)

    async def _reserve(
        self, contest: Contest, attempts: Sequence[Attempt], deadline: float
    ) -> list[Answer | TallyError]:
        """Judge by the contest's configuration, use the addresses' limits, then reserve in the ledger."""
        from_addresses: list[tuple[Attempt, Selection]] = []
        for attempt in attempts:
            attempt.judged, attempt.taken = judge(contest, attempt.command), []
            if isinstance(attempt.judged, Selection) and _counts_address(contest, attempt.command):
                from_addresses.append((attempt, attempt.judged))
        if from_addresses:
            await asyncio.gather(*(self._take_address(contest, *each) for each in from_addresses))
        deadline = min(deadline, asyncio.get_running_loop().time() + RESERVE_WAIT_S)
        futures = [
            self.reservations.reserve(attempt.partition, _request(contest, attempt), deadline)
            for attempt in attempts
        ]
        answers: list[Answer | TallyError] = []
        for future in futures:
            try:
                answers.append(await future)
            except TallyError as error:
                answers.append(error)
        return answers

    async def _take_address(self, contest: Contest, attempt: Attempt, selection: Selection) -> None:
        """Use the address's limit for each choice; the attempt is refused if one is exhausted."""
        command, limit = attempt.command, contest.ip_restriction_per_participant
        attempt.taker = command.vote_id if selection.slot is None else command.voter
        for participant, count in address_votes(selection.form, selection.choices):
            where = command.contest, participant, command.address or ""
            answer = await self.addresses.take(*where, attempt.taker, count, limit, _expiry(contest))
            if answer.taken is Taken.TAKEN:
                attempt.taken.append(participant)
            elif answer.taken is Taken.FULL:
                attempt.judged = LimitReached(LimitScope.IP, limit, answer.used)


def _expiry(contest: Contest) -> int:
    """Return when an address's counter may expire (s since 1970): a day after the contest's end."""
    if contest.end is not None:
        return contest.end // 1_000_000 + 86_400
    return int(time.time()) + ADDRESS_LIFE_S


def _request(contest: Contest, attempt: Attempt) -> Request:
    command = attempt.command
    return Request(
        contest=contest,
        voter=command.voter,
        vote_id=command.vote_id,
        content=command.content,
        source=command.source,
        selection=attempt.judged if isinstance(attempt.judged, Selection) else None,
    )


def _refused(
    contest: Contest, attempt: Attempt, answer: IdConflict | NotRunning | RefusedByCaller | OverLimit | TallyError
) -> TallyError:
    match answer:
        case TallyError():
            return answer
        case IdConflict():
            return reused(attempt.command)
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case RefusedByCaller():
            assert isinstance(attempt.judged, TallyError)
            return attempt.judged
        case OverLimit(scope, limit, used, next_free_vote_at, at):
            return LimitReached(scope, limit, used, next_free_vote_at, at)
        case _:
            assert_never(answer)


def _counts_address(contest: Contest, command: CastVote) -> bool:
    return (
        command.address is not None
        and command.source == "c-free"
        and contest.ip_restriction_per_participant != UNLIMITED
    )
