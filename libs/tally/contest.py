"""A contest as the rules see it. Times are microseconds since 1970 UTC; -1 in a limit means unlimited."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Literal

UNLIMITED: Final = -1

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

    def phase(self, now: int) -> Phase:
        """Half-open: a vote at exactly `end` is late. Without `end` the contest runs on."""
        if self.publish is None or self.publish > now:
            return Phase.SETUP
        if self.start is None or self.start > now:
            return Phase.ANNOUNCED
        if self.end is not None and now >= self.end:
            return Phase.FINISHED
        return Phase.RUNNING

    def runs(self) -> tuple[int, int] | None:
        """The half-open span [from, until) in which the contest runs, or None; -1 for no end."""
        if self.publish is None or self.start is None:
            return None
        return max(self.publish, self.start), UNLIMITED if self.end is None else self.end
