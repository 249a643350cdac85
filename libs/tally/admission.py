"""Admission: the rules that admit or refuse votes, and the code that enforces each of them.

| rule | a vote is admitted by | the log is folded by |
|---|---|---|
| kind of vote, participants, kind of voter | `judge`, here, in the worker | - (the event carries the decision) |
| vote id, phase, limits, renewal | `reserve_one` in `votes/05_reservations.lua` | `voter_ledger.py`, `08_*.lua` |
| limit of an address | `votes/04_addresses.lua`, advisory | - |

`tests/support/models/reference_admission.py` decides all of them in one function, and random votes are
compared with it. No clock, no randomness, no input or output.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from libs.tally.contest import MILLION, UNLIMITED, Contest, Limits, RatingScale
from libs.tally.errors import (
    AnonymousVotingDisabled,
    MobileOnly,
    NotFound,
    ParticipantNotVotable,
    TallyError,
    VoteDoesNotFit,
)
from libs.tally.events import Choices, Form, Rating, replaces, slot, weight
from libs.tally.vote_commands import CastVote

MOST_NAMED: Final = 10
"""Positions and sub-ratings that a message names at most."""


class Selection(NamedTuple):
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


def voting_limits(contest: Contest, source: str) -> Limits:
    """Return the limits of one voter's votes from `source` by the contest's type."""
    limits = contest.paid if source == "c-paid" else contest.free
    match contest.contest_type:
        case "rating":
            return Limits(contest.rating.max_per_participant, limits.max_contest)
        case "ordering":
            return Limits(UNLIMITED, limits.max_contest)
    return limits


def remaining(limit: int, used: int) -> int | None:
    """Return the rest of a limit, at least 0 (it may have been lowered); None for no limit."""
    return None if limit == UNLIMITED else max(0, limit - used)


def judge(contest: Contest, command: CastVote) -> Selection | TallyError:
    """Decide by the contest's configuration alone: the kind of vote, then participants, then the kind of voter."""
    limits = voting_limits(contest, command.source)
    match contest.contest_type:
        case "rating":
            selection = _rated(contest.rating, command, limits)
        case "ordering":
            selection = _ordered(contest, command, limits)
        case _:
            selection = _plain(command, limits)
    if isinstance(selection, TallyError):
        return selection
    for participant in _named(command):
        status = contest.participants.get(participant)
        if status is None:
            return NotFound(f"The contest has no participant {participant}.")
        if status != "approved":
            return ParticipantNotVotable(f"Participant {participant} is {status} and accepts no votes.")
    paid = command.source == "c-paid"
    if command.anonymous and not (contest.is_paid_anonymous if paid else contest.is_anonymous_voting_enabled):
        return AnonymousVotingDisabled("This contest accepts no votes of this source from anonymous voters.")
    if contest.is_mobile_only and not paid and command.platform not in ("ios", "android"):
        return MobileOnly("This contest accepts free votes only from the mobile apps (platform ios or android).")
    return selection


def _named(command: CastVote) -> Iterator[str]:
    """Yield the participants, including those in positions worth no votes."""
    if command.participant is not None:
        yield command.participant
    for _, participant in command.positions or ():
        yield participant


def _plain(command: CastVote, limits: Limits) -> Selection | TallyError:
    if command.rating is not None:
        return VoteDoesNotFit("/rating", "only contests of type rating accept ratings")
    if command.positions is not None:
        return VoteDoesNotFit("/positions", "only contests of type ordering accept positions")
    if command.participant is None:
        return VoteDoesNotFit("/participant_key", "must name the participant voted for")
    return Selection("plain", ((command.participant, command.count),), limits.max_participant, limits.max_contest)


def _rated(scale: RatingScale, command: CastVote, limits: Limits) -> Selection | TallyError:
    if command.positions is not None:
        return VoteDoesNotFit("/positions", "only contests of type ordering accept positions")
    if command.participant is None:
        return VoteDoesNotFit("/participant_key", "must name the participant that is rated")
    if command.rating is None:
        return VoteDoesNotFit("/rating", "is required in a contest of type rating")
    if command.count != 1:
        return VoteDoesNotFit("/count", "a rating is one vote")
    if (wrong := _off_scale(scale, command.rating)) is not None:
        return wrong
    return _selection("rating", ((command.participant, 1),), limits)


def _off_scale(scale: RatingScale, rating: Rating) -> TallyError | None:
    bounds = [("/rating/value", rating.value, scale.highest)]
    for name, value in rating.sub_ratings:
        if name not in scale.sub_ratings:
            message = _no_such("sub-rating", scale.sub_ratings)
            return VoteDoesNotFit("/rating/sub_ratings/" + _step(name), message)
        bounds.append(("/rating/sub_ratings/" + _step(name), value, scale.sub_ratings[name]))
    for pointer, value, highest in bounds:
        if not 0 <= value <= highest:
            return VoteDoesNotFit(pointer, f"must be from 0 to {highest / MILLION:g}")
        if value % MILLION and not scale.fractions:
            return VoteDoesNotFit(pointer, "must be a whole number: this contest accepts no fractions")
    return None


def _ordered(contest: Contest, command: CastVote, limits: Limits) -> Selection | TallyError:
    if command.rating is not None:
        return VoteDoesNotFit("/rating", "only contests of type rating accept ratings")
    if command.participant is not None:
        return VoteDoesNotFit("/participant_key", "is not allowed in an ordering contest: use positions")
    if not command.positions:
        return VoteDoesNotFit("/positions", "must assign a participant to at least one position")
    if command.count != 1:
        return VoteDoesNotFit("/count", "a ballot is one vote")
    given = dict(command.positions)
    for position in given:
        if position not in contest.positions:
            return VoteDoesNotFit("/positions/" + _step(position), _no_such("position", contest.positions))
    if len(set(given.values())) < len(given):
        return VoteDoesNotFit("/positions", "names a participant twice")
    choices = tuple((given[name], votes) for name, votes in contest.positions.items() if name in given and votes)
    if not choices:
        return VoteDoesNotFit("/positions", "must include a position that is worth votes")
    return _selection("ballot", choices, limits)


def _selection(form: Form, choices: Choices, limits: Limits) -> Selection:
    return Selection(form, choices, limits.max_participant, limits.max_contest)


def _no_such(kind: str, ids: Iterable[str]) -> str:
    """Return a message that names the first `MOST_NAMED` ids of the contest."""
    named = ", ".join(islice(ids, MOST_NAMED))
    return f"this contest has no such {kind}; it has {named}" if named else f"this contest has no {kind}"


def _step(name: str) -> str:
    """Escape a member's name for an RFC 6901 pointer."""
    return name.replace("~", "~0").replace("/", "~1")
