"""The state of one vote in a partition's ledger, and the progress of that partition's fold."""

from dataclasses import dataclass
from typing import NamedTuple

from libs.contracts.log_records import Position
from libs.tally.reservations import Duplicate, VoteTerms
from libs.tally.voter_ledger import VoteStatus


class VoteName(NamedTuple):
    """Identifies a vote: vote ids are unique per contest and voter."""

    contest: str
    voter: str
    vote_id: str


class FoldProgress(NamedTuple):
    """Position of a partition's fold, and its gate: open or closed, and its fence epoch (`incarnation`)."""

    position: Position
    open: bool
    incarnation: int

    def ended(self, incarnation: int) -> bool:
        """Return whether a fence ended `incarnation`: its reservations not folded by now never count."""
        return self.open and self.incarnation != incarnation


@dataclass(frozen=True, slots=True)
class VoteState:
    """State of one vote id in the ledger: unknown (`pending` False, `status` None), pending, or folded.

    Once folded, `content` and the `terms` are those of the recorded attempt, which may differ from the
    caller's: the same id, reserved again after a fence, may have other content.
    """

    progress: FoldProgress
    pending: bool = False
    status: VoteStatus | None = None
    terms: VoteTerms | None = None
    offset: int | None = None
    source: str | None = None
    content: str | None = None
    removal_waits: bool = False
    """A removal was recorded after the contest's close: it takes effect if the contest is reopened."""

    @property
    def known(self) -> Duplicate | None:
        """The first answer, once the vote is folded."""
        if self.status is None or self.terms is None or self.offset is None:
            return None
        return Duplicate(self.terms, self.offset, self.status)
