"""One voter of one contest in the fold: the vote ids, and what they used up."""

from dataclasses import dataclass, field
from enum import IntEnum

from libs.tally.contest import UNLIMITED
from libs.tally.events import VoteCast, VoteVoided


class VoteStatus(IntEnum):
    """What became of an accepted vote, by the fold."""

    COUNTED = 0
    OVERRULED = 1
    """It exceeded the limits that it was judged by itself; expected never to happen, kept and alerted on."""
    REMOVED = 2
    """Taken back by its voter, or with its purchase."""
    REPLACED = 3
    """A later rating or ballot took its place."""
    VOIDED = 4
    """Taken out by an operator: it counts no more, but what it used stays used, and it keeps its slot."""
    LATE = 5
    """It came behind the contest's close."""


@dataclass(slots=True)
class Used:
    """Votes of one voter within one limit: used of it, and the largest limit that they carry; how many count.

    Removed votes are neither used nor active, voided ones are used and not active.
    """

    votes: int = 0
    limit: int | None = None
    active: int = 0

    def admits(self, count: int, limit: int) -> bool:
        bound = largest(self.limit, limit)
        return bound == UNLIMITED or self.votes + count <= bound

    def move(self, votes: int, active: int, limit: int) -> None:
        """Use `votes` under `limit`, and have `active` count; below 0: give them back."""
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
    """One vote id, as the ledger keeps it. `epoch` is the period whose allowance it uses: a replacement that of
    the vote it replaced. `voids` are all that took it out of the count, and `void` names the operation that it was
    voided by last; None when that was taken back."""

    cast: VoteCast
    offset: int
    status: VoteStatus
    epoch: int = 0
    voids: tuple[VoteVoided, ...] = ()
    void: str | None = None


@dataclass(slots=True)
class VoterLedger:
    """One voter of one contest. `anonymous` is as the voter's first record says.

    `used` is keyed by (participant or "" for the contest, source, epoch as of `kept_epoch`); `slots` gives the
    vote id that holds a (slot, source), see `VoteCast.slot`. `latest` is when the latest free vote was accepted,
    and `epoch` the allowance period that the voter had come to by then; both 0 unless the contest renews
    allowances.
    """

    anonymous: bool = False
    votes: dict[str, FoldedVote] = field(default_factory=dict)
    used: dict[tuple[str, str, int], Used] = field(default_factory=dict)
    slots: dict[tuple[str, str], str] = field(default_factory=dict)
    epoch: int = 0
    latest: int = 0

    def is_over(self, source: str, epoch: int) -> bool:
        """Whether an allowance period is over: earlier than the one before the latest folded.

        No vote is cast in it any more: `reserve` begins no period while a vote of the last but one is pending.
        """
        return source == "c-free" and epoch < self.epoch - 1

    def kept_epoch(self, source: str, epoch: int) -> int:
        """The epoch under which `used` keeps a period: 0 for all that are over, so that they take no room."""
        return 0 if self.is_over(source, epoch) else epoch

    def sums(self, participant: str, source: str, epoch: int) -> Used:
        """What was used in a period, to be changed in place."""
        return self.used.setdefault((participant, source, self.kept_epoch(source, epoch)), Used())

    def voted(self, participant: str, source: str | None = None) -> bool:
        """Whether any vote counts for `participant` ("": in the contest) from `source` (None: any)."""
        return any(
            used.active > 0 and key[0] == participant and (source is None or key[1] == source)
            for key, used in self.used.items()
        )

    def holder(self, cast: VoteCast) -> FoldedVote | None:
        """The vote that `cast` replaces."""
        if not cast.replaces or cast.slot is None:
            return None
        held = self.slots.get((cast.slot, cast.source))
        return None if held is None else self.votes[held]

    def free_slot(self, cast: VoteCast) -> None:
        """Let go of the slot that `cast` holds, if it holds one."""
        if cast.slot is not None and self.slots.get((cast.slot, cast.source)) == cast.vote_id:
            del self.slots[cast.slot, cast.source]

    def admits(self, cast: VoteCast) -> bool:
        """Whether the votes of `cast` are within their limits; never in a period that is over."""
        if self.is_over(cast.source, cast.epoch):
            return False
        in_contest = self.used.get(("", cast.source, cast.epoch), Used())
        return in_contest.admits(cast.weight, cast.max_contest) and all(
            self.used.get((participant, cast.source, cast.epoch), Used()).admits(count, cast.max_participant)
            for participant, count in cast.choices
        )

    def anchor(self, cast: VoteCast) -> None:
        """Allowances renew from a free vote on, whatever became of it; once they did, also from votes that were
        cast while none renewed."""
        if cast.source == "c-free" and (cast.next_free_vote_at is not None or self.latest or cast.epoch):
            self.latest = max(self.latest, cast.accepted_at)
            if cast.epoch > self.epoch:
                self.epoch = cast.epoch
                self._merge_periods()

    def _merge_periods(self) -> None:
        """Merge the sums of the periods that are over."""
        used, self.used = self.used, {}
        for key, sums in used.items():
            self.sums(*key).merge(sums)


def largest(a: int | None, b: int) -> int:
    """The larger of two limits; no limit is the largest."""
    if a is None:
        return b
    return UNLIMITED if UNLIMITED in (a, b) else max(a, b)
