"""The reference of admission, as one pure function; production decides in parts (`libs/tally/admission.py`)."""

from collections.abc import Callable

from libs.tally.admission import Selection, judge
from libs.tally.contest import UNLIMITED, Contest, Phase
from libs.tally.errors import ContestNotRunning, LimitReached, LimitScope, TallyError
from libs.tally.vote_commands import CastVote

UsedVotes = Callable[[str], int]
"""Returns the votes used (folded and pending) for a participant or "" (the contest), of the command's source and
the vote's allowance period, except those pending in the slot that it replaces."""
Holds = Callable[[str], bool]
"""Returns whether the voter has a folded vote in a slot (`VoteCast.slot`) that a new one would replace."""


def holds_nothing(_: str) -> bool:
    return False


def decide(
    contest: Contest, command: CastVote, used: UsedVotes, now: int, holds: Holds = holds_nothing
) -> Selection | TallyError:
    """Return the selection of an admitted `command`, else the error. Checks run in the documented order."""
    if (early := not_running(contest, now)) is not None:
        return early
    judged = judge(contest, command)
    if isinstance(judged, TallyError):
        return judged
    return over_limit(judged, used, holds) or judged


def not_running(contest: Contest, now: int) -> TallyError | None:
    phase = contest.phase(now)
    return None if phase is Phase.RUNNING else ContestNotRunning(phase, contest.start, contest.end)


def over_limit(selection: Selection, used: UsedVotes, holds: Holds = holds_nothing) -> TallyError | None:
    """Return the first limit exceeded, participants before contest, or None. A replacement uses no allowance."""
    if selection.slot is not None and holds(selection.slot):
        return None
    for participant, count in selection.choices:
        before = used(participant)
        if _exceeds(before + count, selection.max_participant):
            return LimitReached(LimitScope.PARTICIPANT, selection.max_participant, before)
    before = used("")
    if _exceeds(before + selection.weight, selection.max_contest):
        return LimitReached(LimitScope.CONTEST, selection.max_contest, before)
    return None


def _exceeds(votes: int, limit: int) -> bool:
    return limit != UNLIMITED and votes > limit
