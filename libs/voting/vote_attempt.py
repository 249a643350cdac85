"""One attempt to cast a vote, and its outcome."""

from dataclasses import dataclass, field
from typing import Protocol

from libs.contracts.pseudonyms import receipt
from libs.tally.commands import CastVote
from libs.tally.errors import TallyError
from libs.tally.events import Choices
from libs.tally.reservations import Duplicate, Granted
from libs.tally.rules import Selection

RECOVERING = "Temporarily unavailable while the service recovers; retry shortly."


class ReceiptSecrets(Protocol):
    """The secrets that sign receipts."""

    async def load(self) -> None:
        """Load the current secrets; call it before each `at`."""

    def at(self, moment: int) -> bytes:
        """Return the secret that signs receipts of votes accepted at `moment` (microseconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """An accepted vote, recorded in the log. `replayed`: an earlier request with the same id recorded it."""

    command: CastVote
    choices: Choices
    replayed: bool
    accepted_at: int
    remaining_participant: int | None
    remaining_contest: int | None
    next_free_vote_at: int | None
    receipt: str
    partition: int
    offset: int


Outcome = Accepted | TallyError


@dataclass(slots=True)
class Attempt:
    """An attempt to cast a vote. `outcome` is None until decided; `doubted`: a fence rejected an earlier record.

    `judged` is the decision by the contest's configuration. `taken` are the participants for whom it used votes of
    the address's limit, in the name of `taker`: the vote id, or the voter if it replaces a vote, so that the
    replacement uses no further votes.
    """

    command: CastVote
    partition: int
    doubted: bool = False
    judged: Selection | TallyError | None = None
    taken: list[str] = field(default_factory=list)
    taker: str = ""
    outcome: Outcome | None = None

    def accept(self, granted: Granted, proof: str, offset: int) -> None:
        self.outcome = Accepted(
            self.command,
            granted.choices,
            granted.joined,
            granted.accepted_at,
            granted.remaining_participant,
            granted.remaining_contest,
            granted.next_free_vote_at,
            proof,
            self.partition,
            offset,
        )

    def accept_duplicate(self, known: Duplicate, receipts: ReceiptSecrets, *, replayed: bool) -> None:
        command = self.command
        self.outcome = Accepted(
            command,
            known.choices or ((command.participant or "", command.count),),
            replayed,
            known.accepted_at,
            known.remaining_participant,
            known.remaining_contest,
            known.next_free_vote_at,
            receipt(receipts.at(known.accepted_at), command.contest, command.voter, command.vote_id),
            self.partition,
            known.offset,
        )
