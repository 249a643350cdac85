"""The rules of admission, pure: no clock, no randomness, no input or output.

`decide` says in one place what the specification demands. In service it is done in two halves: `own_refusal` in
the ingestion worker, and phase and limits atomically in the ledger (`votes_reserve` in `libs/views/lua/votes`);
tests hold the halves equal to the whole.
"""

from collections.abc import Callable

from libs.tally.commands import CastVote
from libs.tally.contest import UNLIMITED, Contest, Limits, Phase
from libs.tally.errors import (
    AnonymousVotingDisabled,
    ContestNotRunning,
    LimitReached,
    LimitScope,
    MobileOnly,
    NotFound,
    ParticipantNotVotable,
    TallyError,
)

UsedVotes = Callable[[str], int]
"""Votes already used, folded and pending, for a participant or ("") in the contest, from the command's source."""


def decide(contest: Contest, command: CastVote, used: UsedVotes, now: int) -> TallyError | None:
    """The refusal that `command` meets, or None when it is accepted. Checks come in the documented order."""
    return not_running(contest, now) or own_refusal(contest, command) or over_limit(contest, command, used)


def not_running(contest: Contest, now: int) -> TallyError | None:
    phase = contest.phase(now)
    return None if phase is Phase.RUNNING else ContestNotRunning(phase, contest.start, contest.end)


def own_refusal(contest: Contest, command: CastVote) -> TallyError | None:
    """What the contest's configuration alone says against the command: participant, then kind of voter."""
    for participant, _ in command.choices:
        status = contest.participants.get(participant)
        if status is None:
            return NotFound(f"The contest has no participant {participant}.")
        if status != "approved":
            return ParticipantNotVotable(f"Participant {participant} is {status} and takes no votes.")
    paid = command.source == "c-paid"
    if command.anonymous and not (contest.is_paid_anonymous if paid else contest.is_anonymous_voting_enabled):
        return AnonymousVotingDisabled("This contest takes no votes of this source from anonymous voters.")
    if contest.is_mobile_only and not paid and command.platform not in ("ios", "android"):
        return MobileOnly("Free votes of this contest come from the mobile apps only (platform ios or android).")
    return None


def limits_of(contest: Contest, source: str) -> Limits:
    return contest.paid if source == "c-paid" else contest.free


def over_limit(contest: Contest, command: CastVote, used: UsedVotes) -> TallyError | None:
    """A command that would exceed a limit is refused whole: participant before contest."""
    limits = limits_of(contest, command.source)
    for participant, count in command.choices:
        before = used(participant)
        if _exceeds(before + count, limits.max_participant):
            return LimitReached(LimitScope.PARTICIPANT, limits.max_participant, before)
    before = used("")
    if _exceeds(before + command.votes, limits.max_contest):
        return LimitReached(LimitScope.CONTEST, limits.max_contest, before)
    return None


def remaining(limit: int, used: int) -> int | None:
    """What is left of a limit; None when there is none."""
    return None if limit == UNLIMITED else limit - used


def _exceeds(votes: int, limit: int) -> bool:
    return limit != UNLIMITED and votes > limit
