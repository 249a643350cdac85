"""Requests for reservations to a partition's ledger, and its answers.

A reservation holds a voter's allowance between the decision and the fold of the recorded vote. Times are
microseconds since 1970 UTC by the ledger's clock.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from libs.tally.admission import Selection
from libs.tally.contest import Contest
from libs.tally.errors import LimitScope
from libs.tally.events import Choices, Form, Source, VoteCast
from libs.tally.vote_commands import CastVote
from libs.tally.voter_ledger import VoteStatus


class VoteTerms(NamedTuple):
    """The answer to the first attempt of a vote; each attempt gets the same."""

    accepted_at: int
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    choices: Choices


class Granted(NamedTuple):
    """The vote is reserved. `joined`: an earlier attempt with the same id is pending, and has these same values.

    The record must use them, not the caller's configuration, which may differ from the one that admitted the
    first attempt: the fold could overrule a vote recorded with limits that never admitted it.
    """

    joined: bool
    terms: VoteTerms
    incarnation: int
    epoch: int
    config: int
    max_participant: int
    max_contest: int
    form: Form


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The vote id was folded before with the same content. Only the terms of a ballot have choices."""

    terms: VoteTerms
    offset: int
    status: VoteStatus


@dataclass(frozen=True, slots=True)
class IdConflict:
    """The vote id was used with different content."""


@dataclass(frozen=True, slots=True)
class GateClosed:
    """Not decided yet: the partition's gate is closed, or an earlier vote of the voter must be folded first."""


@dataclass(frozen=True, slots=True)
class Stale:
    """The caller's configuration is not the one in force: load it again and decide again."""

    in_force: int | None
    incarnation: int


@dataclass(frozen=True, slots=True)
class NotRunning:
    """The contest is not running at `now` (the ledger's clock)."""

    now: int


@dataclass(frozen=True, slots=True)
class RefusedByCaller:
    """The caller's own refusal applies: no answer with higher precedence does."""

    now: int


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The requested votes would exceed `limit`; `used` counts folded and pending ones."""

    scope: LimitScope
    limit: int
    used: int
    next_free_vote_at: int | None
    now: int


Answer = Granted | Duplicate | IdConflict | GateClosed | Stale | NotRunning | RefusedByCaller | OverLimit


Counter = tuple[str, str, str]
"""Counter of an address's votes: contest, participant, address."""


class Take(NamedTuple):
    """`votes` of one taker to be used of a counter, unless that exceeds `limit` (-1: unlimited).

    The counter expires at `expires_at_s` (seconds since 1970; 0: never).
    """

    counter: Counter
    taker: str
    votes: int
    limit: int
    expires_at_s: int = 0


class Taken(Enum):
    FULL = 0
    TAKEN = 1
    HAD = 2


class AddressAnswer(NamedTuple):
    """Result of a `Take`; `used` is the number of votes used before."""

    taken: Taken
    used: int


class Request(NamedTuple):
    """Input of `reserve` from a command and its contest; `selection` is None if the caller refuses the vote.

    With `take`, on the same server, the vote first uses a counter: a full one refuses it.
    """

    contest: Contest
    voter: str
    vote_id: str
    content: str
    source: Source
    selection: Selection | None
    take: Take | None = None


class Reserved(NamedTuple):
    """Answer to a request, and to its `take`, if the gate was open."""

    answer: Answer
    use: AddressAnswer | None = None


@dataclass(frozen=True, slots=True)
class RemovalGranted:
    """The removal is reserved, and pending until it is folded.

    `anonymous`, `content` and `source` are the vote's, `offset` is its log offset: None if it was never cast.
    """

    removed_at: int
    incarnation: int
    anonymous: bool
    content: str
    source: Source
    offset: int | None


@dataclass(frozen=True, slots=True)
class NotFolded:
    """The vote is pending: reserved or recorded, but not folded yet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The voter has no such vote."""


@dataclass(frozen=True, slots=True)
class NotCounted:
    """Nothing to remove: the vote no longer counts, or never did."""

    status: VoteStatus
    offset: int


@dataclass(frozen=True, slots=True)
class Paid:
    """The vote is paid: only the refund of its purchase removes it."""


RemovalAnswer = (
    RemovalGranted | NotFolded | Unknown | NotCounted | Paid | GateClosed | Stale | NotRunning | RefusedByCaller
)


def cast_of(command: CastVote, granted: Granted, receipt: str) -> VoteCast:
    """Build the event of a reserved vote from the command and the values that admitted it."""
    terms = granted.terms
    return VoteCast(
        contest=command.contest,
        voter=command.voter,
        anonymous=command.anonymous,
        vote_id=command.vote_id,
        content=command.content,
        source=command.source,
        choices=terms.choices,
        accepted_at=terms.accepted_at,
        remaining_participant=terms.remaining_participant,
        remaining_contest=terms.remaining_contest,
        next_free_vote_at=terms.next_free_vote_at,
        incarnation=granted.incarnation,
        config=granted.config,
        max_participant=granted.max_participant,
        max_contest=granted.max_contest,
        epoch=granted.epoch,
        receipt=receipt,
        form=granted.form,
        rating=command.rating,
        positions=command.positions,
        platform=command.platform,
        address=command.address,
    )
