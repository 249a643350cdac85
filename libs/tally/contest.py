"""A contest as the rules see it. Times are microseconds since 1970 UTC; -1 in a limit means unlimited."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

UNLIMITED: Final = -1
DAY_US: Final = 86_400_000_000
MILLION: Final = 1_000_000
"""Ratings are kept in millionths."""

ContestType = Literal["voteonly", "participation", "rating", "ordering"]
ParticipantStatus = Literal["approved", "pending", "rejected"]


class Phase(StrEnum):
    """Where a contest stands, from `publish`, `start`, `end` and the time."""

    SETUP = "setup"
    ANNOUNCED = "announced"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on the votes (the sum of counts) of one voter from one source."""

    max_participant: int
    max_contest: int


@dataclass(frozen=True, slots=True)
class Renewal:
    """When a voter's free allowance starts afresh after the voter's latest free vote; both 0: never."""

    cooldown_us: int = 0
    days_between: int = 0

    def __bool__(self) -> bool:
        return self.cooldown_us > 0 or self.days_between > 0

    def after(self, latest: int) -> int | None:
        """The moment from which on the allowance of who voted at `latest` is whole again; with both, the later."""
        if not self:
            return None
        cooled = latest + self.cooldown_us
        if self.days_between <= 0:
            return cooled
        return max(cooled, (latest // DAY_US + self.days_between) * DAY_US)


@dataclass(frozen=True, slots=True)
class RatingScale:
    """How a rating contest is rated. Values are in millionths; `sub_ratings` holds each one's highest value."""

    highest: int = 5_000_000
    fractions: bool = False
    max_per_participant: int = 1
    sub_ratings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contest:
    """The part of a contest's record, and of its participants', that decides about votes.

    `version` is the offset in the catalogue log of the last change to either.
    """

    key: str
    account: str
    version: int
    contest_type: ContestType = "voteonly"
    publish: int | None = None
    start: int | None = None
    end: int | None = None
    free: Limits = Limits(max_participant=1, max_contest=UNLIMITED)
    paid: Limits = Limits(max_participant=UNLIMITED, max_contest=UNLIMITED)
    is_mobile_only: bool = False
    is_anonymous_voting_enabled: bool = False
    is_paid_anonymous: bool = False
    is_vote_removal_allowed: bool = True
    ip_restriction_per_participant: int = 10
    participants: Mapping[str, ParticipantStatus] = field(default_factory=dict)
    renewal: Renewal = Renewal()
    rating: RatingScale = RatingScale()
    positions: Mapping[str, int] = field(default_factory=dict)
    """Votes that each position of an ordering contest is worth."""
    closed: int = 0
    """Number of the closing that is in force; 0 while there is none."""
    reopened: int = 0
    """Number of the last closing that was reopened."""
    is_erased: bool = False
    """Whether its secret was destroyed, so that its voters cannot be named any more."""
    as_of: int = field(default=0, compare=False)
    """Offset that the catalogue's view stood at when the contest was read there."""

    def phase(self, now: int) -> Phase:
        """Half-open: a vote at exactly `end` is late. Without `end` the contest runs on. Closed is finished."""
        if self.publish is None or self.publish > now:
            return Phase.SETUP
        if self.closed:
            return Phase.FINISHED
        if self.start is None or self.start > now:
            return Phase.ANNOUNCED
        if self.end is not None and now >= self.end:
            return Phase.FINISHED
        return Phase.RUNNING

    @property
    def finishes(self) -> int | None:
        """When the contest becomes finished, as it is set now; None while that is open."""
        return finish(self.publish, self.start, self.end)

    def runs(self) -> tuple[int, int] | None:
        """The half-open span [from, until) in which the contest runs, or None; -1 for no end."""
        if self.publish is None or self.start is None or self.closed:
            return None
        return max(self.publish, self.start), UNLIMITED if self.end is None else self.end


def finish(publish: int | None, start: int | None, end: int | None) -> int | None:
    """The moment from which on the phase is finished."""
    return None if publish is None or start is None or end is None else max(publish, start, end)
