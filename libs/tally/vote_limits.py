"""The limit rule: one voter's votes for a participant and in a contest, as pure functions."""

from collections.abc import Callable
from dataclasses import dataclass

from libs.tally.contest import UNLIMITED, Contest, Limits
from libs.tally.errors import LimitReached, LimitScope, TallyError
from libs.tally.events import Choices, Form, replaces, slot, weight

UsedVotes = Callable[[str], int]
"""Returns the votes used (folded and pending) for a participant or "" (the contest), of the command's source and
the vote's allowance period, except those pending in the slot that it replaces."""
Holds = Callable[[str], bool]
"""Returns whether the voter has a folded vote in a slot (`VoteCast.slot`) that a new one would replace."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The choices of a command in its contest, with their votes and the limits that apply."""

    form: Form
    choices: Choices
    max_participant: int
    max_contest: int

    @property
    def weight(self) -> int:
        return weight(self.form, self.choices)

    @property
    def slot(self) -> str | None:
        """The slot whose vote it replaces; None if it replaces none."""
        return slot(self.form, self.choices) if replaces(self.form, self.max_participant) else None


def holds_nothing(_: str) -> bool:
    return False


def voting_limits(contest: Contest, source: str) -> Limits:
    """Return the limits of one voter's votes from `source` by the contest's type."""
    limits = contest.paid if source == "c-paid" else contest.free
    match contest.contest_type:
        case "rating":
            return Limits(contest.rating.max_per_participant, limits.max_contest)
        case "ordering":
            return Limits(UNLIMITED, limits.max_contest)
    return limits


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


def remaining(limit: int, used: int) -> int | None:
    """Return the rest of a limit, at least 0 (it may have been lowered); None for no limit."""
    return None if limit == UNLIMITED else max(0, limit - used)


def _exceeds(votes: int, limit: int) -> bool:
    return limit != UNLIMITED and votes > limit
