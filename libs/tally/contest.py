"""The contest configuration that the rules read. Times are microseconds since 1970 UTC; limit -1: unlimited."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

UNLIMITED: Final = -1
DAY_US: Final = 86_400_000_000
MILLION: Final = 1_000_000
"""Ratings are stored in millionths."""

ContestType = Literal["voteonly", "participation", "rating", "ordering"]
ParticipantStatus = Literal["approved", "pending", "rejected"]


class Phase(StrEnum):
    """Phase of a contest, computed from `publish`, `start`, `end` and the current time."""

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
    """Renewal of a voter's free allowance, counted from the voter's latest free vote; both 0: never."""

    cooldown_us: int = 0
    days_between: int = 0

    def __bool__(self) -> bool:
        return self.cooldown_us > 0 or self.days_between > 0

    def after(self, latest: int) -> int | None:
        """Return when the allowance renews if the latest free vote was at `latest`; with both rules, the later."""
        if not self:
            return None
        cooldown_end = latest + self.cooldown_us
        if self.days_between <= 0:
            return cooldown_end
        return max(cooldown_end, (latest // DAY_US + self.days_between) * DAY_US)


@dataclass(frozen=True, slots=True)
class RatingScale:
    """Scale of a rating contest, in millionths. `sub_ratings` maps each sub-rating to its highest value."""

    highest: int = 5_000_000
    fractions: bool = False
    max_per_participant: int = 1
    sub_ratings: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Contest:
    """The voting rules of a contest, from its record and those of its participants.

    `version` is the catalogue log's offset of the latest change to any of these records.
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
    """Number of the closing in force; 0: none."""
    reopened: int = 0
    """Number of the latest closing that was reopened."""
    votes_from: int = 0
    """Number of the first partition of the contest's votes topic, which it has for life."""
    is_erased: bool = False
    """True after its secret was destroyed: voters' pseudonyms can no longer be computed."""
    as_of: int = field(default=0, compare=False)
    """Offset of the catalogue view when the contest was read."""

    def phase(self, now: int) -> Phase:
        """Return the phase at `now`. `end` is exclusive; without it the contest runs on. Closed is finished."""
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
        """The time at which the contest finishes by its configuration; None if it has no end."""
        return finish(self.publish, self.start, self.end)

    def runs(self) -> tuple[int, int] | None:
        """Return the half-open interval [from, until) in which the contest runs, or None; `until` -1: no end."""
        if self.publish is None or self.start is None or self.closed:
            return None
        return max(self.publish, self.start), UNLIMITED if self.end is None else self.end


def finish(publish: int | None, start: int | None, end: int | None) -> int | None:
    """Return the time from which the phase is finished; None without a complete schedule."""
    return None if publish is None or start is None or end is None else max(publish, start, end)
