"""Protocol that removes a vote, on its voter's request or by its purchase's refund: reserve, append, confirm."""

from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.contest import UNLIMITED, Contest
from libs.tally.errors import (
    RECOVERING,
    ContestNotRunning,
    LedgerCatchingUp,
    LogUnavailable,
    NotFound,
    TallyError,
    VoteRemovalNotAllowed,
)
from libs.tally.events import Actor, VoteCast, VoteRemoved, address_takers
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
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol import shared_steps
from libs.voting.protocol.effects import AwaitGate, AwaitVote, GiveAddress, ReadVote, ReserveRemoval, Steps
from libs.voting.protocol.shared_steps import Removed

UNDECIDED = None, VoteStatus.COUNTED, VoteStatus.VOIDED
"""Statuses of a vote whose removal is not folded yet."""


def remove_vote(
    command: RemoveVote | CastVote, contest: Contest | None, partition: int, actor: Actor | None
) -> Steps[Removed | TallyError]:
    """Remove a vote on its voter's request, first by the cached `contest`, or, without one, by a refund.

    Repeatable: a vote that no longer counts is no error. A voter cannot remove a voided vote: it may be restored,
    and its allowance stays used. A refund removes a paid vote (a `CastVote`) at any time; an id that was never
    cast is used up, so no attempt can cast it later. After an error with status 503 the vote may or may not be
    removed.
    """
    seen: FoldProgress | None = None
    cast: VoteCast | None = None
    fenced = False
    while True:
        if cast is None and contest is not None and _may_give_address(contest):
            # read first: a reserved removal delays other requests until it is recorded
            cast = yield ReadVote()
        answer: RemovalAnswer | TallyError = yield ReserveRemoval(contest)
        match answer:
            case RemovalGranted():
                event = event_of(command, answer, cast, actor)
                recorded: shared_steps.Recorded = yield from shared_steps.record(event, is_removed)
                if isinstance(recorded, TallyError):
                    return recorded
                if recorded is None:
                    unknown = "The vote may or may not have been removed; send the request again."
                    return LogUnavailable(unknown, retry_after_s=2)
                if isinstance(recorded, VoteState) and not is_removed(recorded):
                    fenced = True
                    continue
                if event.address is not None:
                    takers = address_takers(event.voter, event.vote_id)
                    uses = ((participant, taker) for participant in event.participants for taker in takers)
                    yield GiveAddress(event.address, tuple(uses), removed=True)
                return Removed(partition, recorded if isinstance(recorded, int) else None)
            case TallyError():
                return LogUnavailable("The removal was not recorded.", retry_after_s=1) if fenced else answer
            case NotCounted(status) if contest is None or status is not VoteStatus.VOIDED:
                return Removed(partition, None)
            case GateClosed():
                seen = yield AwaitGate(seen)
                if seen is None:
                    return LedgerCatchingUp(RECOVERING, retry_after_s=1)
            case NotFolded():
                state: VoteState | None = yield AwaitVote(_is_not_pending, seen)
                if state is None:
                    undecided = "The vote to remove is still being recorded; retry shortly."
                    return LedgerCatchingUp(undecided, retry_after_s=1)
                seen = state.progress
            case Stale() if contest is not None:
                refreshed = yield from shared_steps.refresh(contest, answer)
                if isinstance(refreshed, TallyError):
                    return refreshed
                contest = refreshed
            case _:
                assert contest is not None, f"a refund was answered {answer}"
                return _refusal(contest, command, answer)


def is_removed(state: VoteState) -> bool:
    """Return whether the removal is folded; a voided vote is not removed, since it may be restored."""
    return state.removal_waits or state.status not in UNDECIDED


def _is_not_pending(state: VoteState) -> bool:
    return not state.pending


def _may_give_address(contest: Contest) -> bool:
    """Return whether the vote's record may name an address, whose votes the removal gives back."""
    return contest.ip_restriction_per_participant != UNLIMITED and contest.is_vote_removal_allowed


def event_of(
    command: RemoveVote | CastVote, granted: RemovalGranted, cast: VoteCast | None, actor: Actor | None
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
        reason="refund" if isinstance(command, CastVote) else "voter",
        address=None if cast is None else cast.address,
        participants=() if cast is None else tuple(participant for participant, _ in cast.choices),
        actor=actor,
    )


def _refusal(contest: Contest, command: RemoveVote | CastVote, answer: RemovalAnswer) -> TallyError:
    match answer:
        case Unknown():
            return NotFound(f"This voter has no accepted vote {command.vote_id}.")
        case NotRunning(now):
            return ContestNotRunning(contest.phase(now), contest.start, contest.end)
        case RefusedByCaller():
            return VoteRemovalNotAllowed("This contest does not allow votes to be removed.")
        case NotCounted():
            return VoteRemovalNotAllowed(
                "An operator voided this vote: it no longer counts, and the allowance that it used stays used."
            )
        case Paid():
            return VoteRemovalNotAllowed("A paid vote is removed only by the refund of its purchase.")
    raise AssertionError(f"unexpected answer to a removal: {answer}")
