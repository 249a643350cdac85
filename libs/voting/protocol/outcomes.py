"""Outcomes of the protocols."""

from dataclasses import dataclass
from typing import NamedTuple

from libs.tally.errors import TallyError
from libs.tally.reservations import VoteTerms
from libs.tally.vote_commands import CastVote


class Accepted(NamedTuple):
    """An accepted vote, recorded in the log. `replayed`: an earlier request with the same id recorded it."""

    command: CastVote
    terms: VoteTerms
    replayed: bool
    receipt: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Removed:
    """A vote that no longer counts. `offset` is that of its removal in the log, None if it was removed before."""

    partition: int
    offset: int | None


Outcome = Accepted | TallyError
"""Outcome of a cast vote."""
