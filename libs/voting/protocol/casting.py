"""Protocol that casts a vote: judge, reserve, append, confirm; repeated after a fence or a newer configuration."""

from typing import Final, Protocol, assert_never

from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.admission import Selection, judge
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    RECOVERING,
    AppendUnknown,
    ContestNotRunning,
    IdempotencyKeyReused,
    LedgerCatchingUp,
    LimitReached,
    LimitScope,
    LogUnavailable,
    TallyError,
)
from libs.tally.events import VoteCast, address_takers, address_votes
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
    cast_of,
)
from libs.tally.vote_commands import CastVote
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol import shared_steps
from libs.voting.protocol.effects import (
    AddressTaken,
    AwaitGate,
    AwaitRecord,
    GiveAddress,
    ReadCast,
    Reserve,
    Steps,
    TakeAddress,
)
from libs.voting.protocol.shared_steps import Accepted, Outcome

_USING: Final = frozenset({VoteStatus.COUNTED, VoteStatus.REPLACED, VoteStatus.VOIDED})
"""Statuses of a folded vote that keeps its use of the address's limit."""


class Receipts(Protocol):
    """Receipts of a vote by the time at which it is accepted (microseconds since 1970 UTC)."""

    def sign(self, accepted_at: int) -> str:
        """Return the receipt of the vote if it is accepted now, with this time."""

    def find(self, accepted_at: int) -> str | None:
        """Return the receipt of the vote, which was accepted before; None if only its record tells it."""


def cast_vote(command: CastVote, contest: Contest, partition: int, receipts: Receipts) -> Steps[Outcome]:
    """Cast a vote, first by the cached `contest`.

    After an error with status 503 the same vote id may be sent again. An attempt uses an address's limit once, and
    gives its hold back if the vote is refused: others of the same id have holds of their own. The votes are used
    in the name of the vote, or of its voter if the vote replaces another, so that the replacement uses no others.
    """
    seen: FoldProgress | None = None
    fenced = False
    answer: Answer | TallyError | None
    held: dict[str, str] = {}
    """By participant the taker in whose name the address's limit is used."""
    while True:
        judged, answer = judge(contest, command), None
        if isinstance(judged, Selection) and _uses_address(contest, command):
            own, of_voter = address_takers(command.voter, command.vote_id)
            taker = own if judged.slot is None else of_voter
            votes = tuple(vote for vote in address_votes(judged.form, judged.choices) if vote[0] not in held)
            if votes:
                then = _request(contest, command, judged)
                reply: AddressTaken | TallyError = yield TakeAddress(contest, taker, votes, then)
                if isinstance(reply, TallyError):
                    answer = reply
                else:
                    held |= dict.fromkeys(reply.participants, taker)
                    if reply.used is not None:
                        judged = LimitReached(LimitScope.IP, contest.ip_restriction_per_participant, reply.used)
        if answer is None:
            answer = yield Reserve(_request(contest, command, judged))
        match answer:
            case Granted():
                event = cast_of(command, answer, receipts.sign(answer.terms.accepted_at))
                recorded: shared_steps.Recorded = yield from shared_steps.record(event, is_folded)
                if isinstance(recorded, int) and answer.joined and receipts.find(event.accepted_at) is None:
                    # the record that counts may be the first attempt's, with another receipt
                    recorded = yield AwaitRecord(is_folded, event.incarnation, recorded)
                if isinstance(recorded, int):
                    return Accepted(command, answer.terms, answer.joined, event.receipt, partition, recorded)
                if recorded is None:
                    unknown = "The vote may or may not have been recorded; send it again with the same vote id."
                    return AppendUnknown(unknown, retry_after_s=2)
                if isinstance(recorded, VoteState):
                    if recorded.known is None:
                        fenced = True  # its record can never count, so it may be reserved again
                        continue
                    # after a fence another request may have taken the id
                    if recorded.content == command.content:
                        return (yield from _repeated(command, recorded.known, receipts, partition, answer.joined))
                    outcome: Outcome = _reused(command)
                else:
                    outcome = recorded
            case TallyError():
                # a reservation may be held, but this attempt never records it
                outcome = LogUnavailable("The vote was not recorded.", retry_after_s=1) if fenced else answer
            case Stale():
                contest_or_error = yield from shared_steps.refresh(contest, answer)
                if isinstance(contest_or_error, Contest):
                    contest = contest_or_error
                    continue
                outcome = contest_or_error
            case GateClosed():
                seen = yield AwaitGate(seen)
                if seen is not None:
                    continue
                outcome = LedgerCatchingUp(RECOVERING, retry_after_s=1)
            case Duplicate():
                outcome = yield from _repeated(command, answer, receipts, partition, not fenced)
                if answer.status in _USING:
                    return outcome
            case IdConflict():
                outcome = _reused(command)
            case _:
                outcome = _refusal(contest, judged, answer)
        if held:
            yield GiveAddress(command.address or "", tuple(held.items()))
        return outcome


def is_folded(state: VoteState) -> bool:
    return state.known is not None


def _uses_address(contest: Contest, command: CastVote) -> bool:
    return (
        command.address is not None
        and command.source == "c-free"
        and contest.ip_restriction_per_participant != UNLIMITED
    )


def _request(contest: Contest, command: CastVote, judged: Selection | TallyError) -> Request:
    selection = judged if isinstance(judged, Selection) else None
    return Request(contest, command.voter, command.vote_id, command.content, command.source, selection)


def _repeated(
    command: CastVote, first: Duplicate, receipts: Receipts, partition: int, replayed: bool
) -> Steps[Outcome]:
    """Return the first answer of a vote that is folded."""
    terms = first.terms
    receipt = receipts.find(terms.accepted_at)
    if receipt is None:
        cast: VoteCast | TallyError | None = yield ReadCast(first.offset)
        if isinstance(cast, TallyError):
            unread = "The vote is recorded, but its receipt cannot be read; send it again with the same vote id."
            return AppendUnknown(unread, retry_after_s=1, cause=cast)
        receipt = receipts.sign(terms.accepted_at) if cast is None else cast.receipt
    if not terms.choices:
        terms = terms._replace(choices=((command.participant or "", command.count),))
    return Accepted(command, terms, replayed, receipt, partition, first.offset)


def _refusal(
    contest: Contest,
    judged: Selection | TallyError,
    answer: NotRunning | RefusedByCaller | OverLimit,
) -> TallyError:
    match answer:
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case RefusedByCaller():
            assert isinstance(judged, TallyError)
            return judged
        case OverLimit(scope, limit, used, next_free_vote_at, now):
            return LimitReached(scope, limit, used, next_free_vote_at, now)
        case _:
            assert_never(answer)


def _reused(command: CastVote) -> TallyError:
    return IdempotencyKeyReused(f"This voter already used vote id {command.vote_id} for a different vote.")
