"""One vote on its way into the log, and how it ends."""

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
        """Before `at`, each time."""

    def at(self, moment: int) -> bytes:
        """The one that signs the receipt of a vote that was accepted then (microseconds since 1970 UTC)."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """A vote in the log that counts. `replayed`: an earlier request was the first to be told so."""

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
    """`outcome` is None until it is decided; `doubted` when an earlier record of it was fenced off.

    `judged` is what the contest's configuration says of it, `taken` are the participants for whom it took votes
    from the address's limit, in the name of `taker`: the voter where it replaces a vote, so that it takes nothing
    which the replaced one had not.
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

    def answer_again(self, known: Duplicate, receipts: ReceiptSecrets, *, replayed: bool) -> None:
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
