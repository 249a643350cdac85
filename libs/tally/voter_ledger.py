"""The fold of one voter's votes in one contest: the vote ids, and the used allowances."""

from dataclasses import dataclass, field
from enum import IntEnum

from libs.tally.contest import UNLIMITED
from libs.tally.events import VoteCast, VoteVoided


class VoteStatus(IntEnum):
    """Status of an accepted vote after the fold."""

    COUNTED = 0
    OVERRULED = 1
    """Exceeds the limits that admitted it. Never expected; stored, and raises an alert."""
    REMOVED = 2
    """Removed by its voter, or by its purchase's refund."""
    REPLACED = 3
    """A later rating or ballot replaced it."""
    VOIDED = 4
    """Voided by an operator: it no longer counts, but its allowance stays used and it keeps its slot."""
    LATE = 5
    """Recorded after the contest's close marker."""


@dataclass(slots=True)
class Used:
    """One voter's votes under one limit: used ones, the largest limit that they carry, and counted (active) ones.

    Removed votes are neither used nor active; voided ones are used but not active.
    """

    votes: int = 0
    limit: int | None = None
    active: int = 0

    def admits(self, count: int, limit: int) -> bool:
        bound = largest(self.limit, limit)
        return bound == UNLIMITED or self.votes + count <= bound

    def move(self, votes: int, active: int, limit: int) -> None:
        """Add `votes` used under `limit` and `active` counted ones; negative numbers give back."""
        self.votes += votes
        self.active += active
        if votes > 0:
            self.limit = largest(self.limit, limit)

    def merge(self, other: "Used") -> None:
        """Add the votes of another period."""
        self.votes += other.votes
        self.active += other.active
        if other.limit is not None:
            self.limit = largest(self.limit, other.limit)


@dataclass(slots=True)
class FoldedVote:
    """One vote id in the ledger.

    `epoch` is the period whose allowance it uses; a replacement uses that of the replaced vote. `voids` are all
    its voidings, `void` is the operation that it is voided by; None if restored.
    """

    cast: VoteCast
    offset: int
    status: VoteStatus
    epoch: int = 0
    voids: tuple[VoteVoided, ...] = ()
    void: str | None = None


@dataclass(slots=True)
class VoterLedger:
    """One voter of one contest. `anonymous` is taken from the voter's first record.

    `used` is keyed by (participant or "" for the contest, source, epoch as of `kept_epoch`); `slots` maps
    (slot, source) to the vote id that holds it, see `VoteCast.slot`. `latest` is when the latest free vote was
    accepted, and `epoch` its allowance period; both 0 unless the contest renews allowances.
    """

    anonymous: bool = False
    votes: dict[str, FoldedVote] = field(default_factory=dict)
    used: dict[tuple[str, str, int], Used] = field(default_factory=dict)
    slots: dict[tuple[str, str], str] = field(default_factory=dict)
    epoch: int = 0
    latest: int = 0

    def is_over(self, source: str, epoch: int) -> bool:
        """Return whether an allowance period is over: earlier than the one before the latest folded.

        No further vote is cast in it: `reserve` begins no period while a vote of the last but one is pending.
        """
        return source == "c-free" and epoch < self.epoch - 1

    def kept_epoch(self, source: str, epoch: int) -> int:
        """Return the epoch of a period's key in `used`: 0 for all that are over, so they share one entry."""
        return 0 if self.is_over(source, epoch) else epoch

    def sums(self, participant: str, source: str, epoch: int) -> Used:
        """Return the sums of a period, to be changed in place."""
        return self.used.setdefault((participant, source, self.kept_epoch(source, epoch)), Used())

    def voted(self, participant: str, source: str | None, besides: Used) -> bool:
        """Return whether any vote counts for `participant` ("": the contest) from `source` (None: any), apart from
        one period of one source.
        """
        return any(
            used.active > 0
            and used is not besides
            and key[0] == participant
            and (source is None or key[1] == source)
            for key, used in self.used.items()
        )

    def holder(self, cast: VoteCast) -> FoldedVote | None:
        """Return the vote that `cast` replaces, or None."""
        if not cast.replaces or cast.slot is None:
            return None
        held = self.slots.get((cast.slot, cast.source))
        return None if held is None else self.votes[held]

    def free_slot(self, cast: VoteCast) -> None:
        """Release the slot that `cast` holds, if any."""
        if cast.slot is not None and self.slots.get((cast.slot, cast.source)) == cast.vote_id:
            del self.slots[cast.slot, cast.source]

    def admits(self, cast: VoteCast) -> bool:
        """Return whether the votes of `cast` are within their limits; False in a period that is over."""
        if self.is_over(cast.source, cast.epoch):
            return False
        in_contest = self.used.get(("", cast.source, cast.epoch), Used())
        return in_contest.admits(cast.weight, cast.max_contest) and all(
            self.used.get((participant, cast.source, cast.epoch), Used()).admits(count, cast.max_participant)
            for participant, count in cast.choices
        )

    def anchor(self, cast: VoteCast) -> None:
        """Set the latest free vote, from which allowances renew, whatever its status.

        After the first renewal, votes cast while the contest renews no allowances count too.
        """
        if cast.source == "c-free" and (cast.next_free_vote_at is not None or self.latest or cast.epoch):
            self.latest = max(self.latest, cast.accepted_at)
            if cast.epoch > self.epoch:
                self.epoch = cast.epoch
                self._merge_periods()

    def _merge_periods(self) -> None:
        """Merge the sums of all periods that are over."""
        used, self.used = self.used, {}
        for key, sums in used.items():
            self.sums(*key).merge(sums)


def largest(a: int | None, b: int) -> int:
    """Return the larger of two limits; unlimited is the largest."""
    if a is None:
        return b
    return UNLIMITED if UNLIMITED in (a, b) else max(a, b)
