"""The words in which a partition's ledger is asked for a reservation, and answers.

A reservation holds a voter's allowance between the decision and the fold of the recorded vote. Times are
microseconds since 1970 UTC, stamped by the ledger's one clock.
"""

from dataclasses import dataclass

from libs.tally.commands import CastVote
from libs.tally.contest import Contest
from libs.tally.errors import LimitScope
from libs.tally.events import Choices, Form, Source, VoteCast
from libs.tally.rules import Selection
from libs.tally.voter_ledger import VoteStatus


@dataclass(frozen=True, slots=True)
class Granted:
    """Reserved. `joined`: an earlier attempt with the same id is pending; this one produces the same record.

    So the record takes all of this from here: the caller's own configuration may be another one than the first
    attempt was admitted by, and limits that never admitted the vote could overrule it.
    """

    joined: bool
    accepted_at: int
    incarnation: int
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    epoch: int
    config: int
    max_participant: int
    max_contest: int
    form: Form
    choices: Choices


@dataclass(frozen=True, slots=True)
class Duplicate:
    """The id was folded before, with the same content: its first answer. `choices` are those of a ballot."""

    accepted_at: int
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    offset: int
    status: VoteStatus
    choices: Choices = ()


@dataclass(frozen=True, slots=True)
class IdConflict:
    """The id was used for something else."""


@dataclass(frozen=True, slots=True)
class GateClosed:
    """Not admitted now, decided soon: the gate is shut, or an earlier vote of the voter has to be folded first."""


@dataclass(frozen=True, slots=True)
class Stale:
    """Decided by another configuration than the one in force; load it again and decide again."""

    in_force: int | None
    incarnation: int


@dataclass(frozen=True, slots=True)
class NotRunning:
    """The contest does not run at `now` (the ledger's clock)."""

    now: int


@dataclass(frozen=True, slots=True)
class RefusedByCaller:
    """The refusal that the caller passed along stands: nothing older or weightier comes before it."""

    now: int


@dataclass(frozen=True, slots=True)
class OverLimit:
    """The votes asked for would exceed `limit`; `used` counts folded and pending ones."""

    scope: LimitScope
    limit: int
    used: int
    next_free_vote_at: int | None
    now: int


Answer = Granted | Duplicate | IdConflict | GateClosed | Stale | NotRunning | RefusedByCaller | OverLimit


@dataclass(frozen=True, slots=True)
class Request:
    """What `reserve` needs of a command and its contest; without a `selection` the caller refuses."""

    contest: Contest
    voter: str
    vote_id: str
    content: str
    source: Source
    selection: Selection | None


@dataclass(frozen=True, slots=True)
class RemovalGranted:
    """The vote may be removed; until the removal is folded it is pending as a vote is.

    `anonymous`, `content`, `source` are the vote's, `offset` is its place in the log: None when it never came.
    """

    removed_at: int
    incarnation: int
    anonymous: bool
    content: str
    source: Source
    offset: int | None


@dataclass(frozen=True, slots=True)
class NotFolded:
    """The vote is recorded or about to be, and not folded yet."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """This voter has no such vote."""


@dataclass(frozen=True, slots=True)
class NotCounted:
    """There is nothing to remove: the vote counts no more, or never did."""

    status: VoteStatus
    offset: int


@dataclass(frozen=True, slots=True)
class Paid:
    """A paid vote is taken back with its purchase only."""


RemovalAnswer = (
    RemovalGranted | NotFolded | Unknown | NotCounted | Paid | GateClosed | Stale | NotRunning | RefusedByCaller
)


def cast_of(command: CastVote, granted: Granted, receipt: str) -> VoteCast:
    """The record of a reserved vote: what was asked for, and all that it was judged by."""
    return VoteCast(
        contest=command.contest,
        voter=command.voter,
        anonymous=command.anonymous,
        vote_id=command.vote_id,
        content=command.content,
        source=command.source,
        choices=granted.choices,
        accepted_at=granted.accepted_at,
        incarnation=granted.incarnation,
        config=granted.config,
        max_participant=granted.max_participant,
        max_contest=granted.max_contest,
        epoch=granted.epoch,
        remaining_participant=granted.remaining_participant,
        remaining_contest=granted.remaining_contest,
        next_free_vote_at=granted.next_free_vote_at,
        receipt=receipt,
        form=granted.form,
        rating=command.rating,
        platform=command.platform,
        address=command.address,
    )
