"""Requests of voters and payment platforms: to cast a vote, to remove one, to refund one."""

from dataclasses import dataclass
from typing import Any

from libs.tally.contest import Contest
from libs.tally.events import Event, VoteCast, VoteRemoved
from libs.tally.reservations import RemovalAnswer, cast_of
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.voting.protocol import casting, removal
from libs.voting.protocol.effects import Steps
from libs.voting.protocol.outcomes import Accepted
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.simulated_system import Removed, SimulatedSystem, Success, Violation


@dataclass(frozen=True, slots=True)
class Casting:
    command: CastVote

    @property
    def address(self) -> str:
        return self.command.address or ""

    def protocol(self, contest: Contest) -> Steps[Any]:
        return casting.cast_vote(self.command, contest, 0, lambda _: "receipt")

    def event(self, granted: Any) -> VoteCast:
        return cast_of(self.command, granted, "receipt")

    def release(self, ledger: Ledger, incarnation: int) -> None:
        ledger.release(self.command, incarnation)

    def succeeded(self, system: SimulatedSystem, accepted: Accepted) -> None:
        """The vote is at the offset that was answered, or the refund that used up its id."""
        record = _record(system, accepted.offset)
        if not isinstance(record, VoteCast | VoteRemoved) or _name(record) != _name(self.command):
            raise Violation(f"{self} is answered with the offset {accepted.offset} of {record}")
        system.successes.append(Success(self.command, accepted.accepted_at))

    def __str__(self) -> str:
        what = self.command
        chosen = what.positions or (what.participant, what.rating.value if what.rating else what.count)
        return f"{what.voter[:4]}/{what.vote_id} {chosen}"


@dataclass(frozen=True, slots=True)
class Removing:
    """A removal by the voter, or the refund of a vote (a `CastVote`)."""

    command: CastVote | RemoveVote

    @property
    def address(self) -> str:
        return ""

    def protocol(self, contest: Contest) -> Steps[Any]:
        refunds = isinstance(self.command, CastVote)
        return removal.remove_vote(self.command, None if refunds else contest, 0, None)

    def ask(self, system: SimulatedSystem, contest: Contest | None) -> RemovalAnswer:
        system.unwanted.add((self.command.voter, self.command.vote_id))
        if isinstance(self.command, CastVote):
            return system.ledger.refund(self.command)
        assert contest is not None
        return system.ledger.remove(contest, self.command)

    def event(self, granted: Any) -> VoteRemoved:
        return removal.event_of(self.command, granted, None, None)

    def release(self, ledger: Ledger, incarnation: int) -> None:
        ledger.release_removal(self.command, incarnation)

    def succeeded(self, system: SimulatedSystem, removed: Any) -> None:
        record = None if removed.offset is None else _record(system, removed.offset)
        if removed.offset is not None and (
            not isinstance(record, VoteRemoved) or _name(record) != _name(self.command)
        ):
            raise Violation(f"{self} is answered with the offset {removed.offset} of {record}")
        system.removed.append(Removed(self.command))

    def __str__(self) -> str:
        kind = "refund" if isinstance(self.command, CastVote) else "remove"
        return f"{kind} {self.command.voter[:4]}/{self.command.vote_id}"


Errand = Casting | Removing


def _record(system: SimulatedSystem, offset: int) -> Event | None:
    return system.log[offset] if 0 <= offset < len(system.log) else None


def _name(of: CastVote | RemoveVote | VoteCast | VoteRemoved) -> tuple[str, str]:
    return of.voter, of.vote_id
