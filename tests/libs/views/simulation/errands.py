"""Requests of voters and payment platforms: to cast a vote, to remove one, to refund one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from libs.contracts.vote_states import VoteState
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.contest import Contest
from libs.tally.events import VoteCast, VoteRemoved
from libs.tally.reservations import (
    Answer,
    Duplicate,
    Granted,
    NotCounted,
    NotFolded,
    RemovalAnswer,
    cast_of,
)
from libs.tally.voter_ledger import VoteStatus
from libs.voting.remover import is_removed
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.world import Removed, Success, Violation, World


@dataclass(frozen=True, slots=True)
class Casting:
    command: CastVote

    def ask(self, world: World, contest: Contest) -> Answer:
        answer = world.ledger.reserve(contest, self.command)
        if isinstance(answer, Granted):
            world.granted.add((self.command.voter, self.command.vote_id))
        return answer

    def event(self, granted: Any) -> VoteCast:
        return cast_of(self.command, granted, "receipt")

    def release(self, ledger: Ledger, incarnation: int) -> None:
        ledger.release(self.command, incarnation)

    def waits_for(self, answer: Any) -> bool:
        return False

    def is_done(self, state: VoteState) -> bool:
        return state.known is not None

    def succeeded(self, world: World, granted: Any) -> None:
        world.successes.append(Success(self.command, granted.accepted_at))
        world.note(f"201 for {self}")

    def answered(self, world: World, answer: Any) -> None:
        if not isinstance(answer, Duplicate):
            world.refusals.append((self.command, answer))
        elif answer.status in (VoteStatus.COUNTED, VoteStatus.REPLACED, VoteStatus.REMOVED, VoteStatus.VOIDED):
            self.succeeded(world, answer)
        else:
            raise Violation(f"{self} is {answer.status.name}")

    def __str__(self) -> str:
        what = self.command
        chosen = what.positions or (what.participant, what.rating.value if what.rating else what.count)
        return f"{what.voter[:4]}/{what.vote_id} {chosen}"


@dataclass(frozen=True, slots=True)
class Removing:
    """A removal by the voter, or the refund of a vote (a `CastVote`)."""

    command: CastVote | RemoveVote

    def ask(self, world: World, contest: Contest) -> RemovalAnswer:
        world.unwanted.add((self.command.voter, self.command.vote_id))
        if isinstance(self.command, CastVote):
            return world.ledger.refund(self.command)
        return world.ledger.remove(contest, self.command)

    def event(self, granted: Any) -> VoteRemoved:
        return VoteRemoved(
            contest=self.command.contest,
            voter=self.command.voter,
            anonymous=granted.anonymous,
            vote_id=self.command.vote_id,
            content=granted.content,
            source=granted.source,
            incarnation=granted.incarnation,
            removed_at=granted.removed_at,
            reason="refund" if isinstance(self.command, CastVote) else "voter",
        )

    def release(self, ledger: Ledger, incarnation: int) -> None:
        ledger.release_removal(self.command, incarnation)

    def waits_for(self, answer: Any) -> bool:
        return isinstance(answer, NotFolded)

    def is_done(self, state: VoteState) -> bool:
        return is_removed(state)

    def succeeded(self, world: World, granted: Any) -> None:
        world.removed.append(Removed(self.command))
        world.note(f"204 for {self}")

    def answered(self, world: World, answer: Any) -> None:
        voided = isinstance(answer, NotCounted) and answer.status is VoteStatus.VOIDED
        if isinstance(answer, NotCounted | Duplicate) and not voided:
            self.succeeded(world, answer)

    def __str__(self) -> str:
        kind = "refund" if isinstance(self.command, CastVote) else "remove"
        return f"{kind} {self.command.voter[:4]}/{self.command.vote_id}"


Errand = Casting | Removing
