"""A log that a shortest schedule appends to and folds."""

from typing import Any

from libs.contracts.log_records import Position
from libs.tally.contest import Contest
from libs.tally.events import Event, Fence, LogCreated
from libs.tally.reservations import Granted, Stale, cast_of
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.tally.voter_ledger import VoteStatus
from tests.libs.views.lua_ledger import LuaLedger
from tests.support.builders.contests import pseudonym


class Log(list[Event]):
    """The partition's log, folded into `ledger` on demand."""

    def __init__(self, ledger: LuaLedger) -> None:
        super().__init__([LogCreated("log")])
        self.ledger = ledger

    def fold(self, most: int = 10**6) -> None:
        at = self.ledger.state().position.offset
        end = min(len(self), at + most)
        self.ledger.apply(Position("log", at), self[at:end], end)

    def fence(self) -> Fence:
        """Shut the gate, and open it again by a fence."""
        fence = self.ledger.shut(self.ledger.state().incarnation)
        assert fence is not None
        self.append(fence)
        self.fold()
        assert self.ledger.state().open
        return fence

    def ask(self, contest: Contest, command: CastVote) -> Any:
        """Ask for a reservation by a configuration that is in force."""
        answer = self.ledger.reserve(contest, command)
        if isinstance(answer, Stale):
            self.ledger.put_in_force(contest, answer.incarnation)
            answer = self.ledger.reserve(contest, command)
        return answer

    def reserve(self, contest: Contest, command: CastVote) -> Granted:
        answer = self.ask(contest, command)
        assert isinstance(answer, Granted), answer
        return answer

    def cast(self, contest: Contest, *commands: CastVote) -> None:
        """Reserve and fold, one after the other."""
        for command in commands:
            self.append(cast_of(command, self.reserve(contest, command), "receipt"))
            self.fold()

    def status(self, vote_id: str) -> VoteStatus | None:
        return self.ledger.lookup(a_removal(vote_id)).status


def a_removal(vote_id: str) -> RemoveVote:
    return RemoveVote("contest", pseudonym("voter"), vote_id)
