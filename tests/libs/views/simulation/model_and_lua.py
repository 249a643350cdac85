"""Sends every call to Valkey's functions and to the model, and compares the replies."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from libs.contracts.log_records import Position
from libs.contracts.vote_states import VoteState
from libs.tally.events import Event, LogCreated
from libs.tally.reservations import Granted
from tests.libs.views.simulation.ledger import Ledger
from tests.libs.views.simulation.lua_ledger import LuaLedger
from tests.libs.views.simulation.model_ledger import ModelLedger


class Both:
    """The functions and the model side by side, each with a log of its own, since their incarnations differ."""

    def __init__(self, lua: LuaLedger) -> None:
        self.lua = lua
        self.ledgers: list[Ledger] = [self.lua, ModelLedger()]
        self.logs: list[list[Event]] = [[LogCreated("log")], [LogCreated("log")]]

    def ask(self, question: Callable[[Ledger], Any]) -> list[Any]:
        """Return the answer of both, which must be the same."""
        answers = [question(ledger) for ledger in self.ledgers]
        lua, model = (_without_incarnation(answer) for answer in answers)
        assert lua == model
        return answers

    def append(self, *events: Event) -> None:
        """Append to each log its own form of an event."""
        for log, event in zip(self.logs, events * (2 // len(events)), strict=True):
            log.append(event)

    def fold(self, most: int = 10**6) -> None:
        for ledger, log in zip(self.ledgers, self.logs, strict=True):
            at = ledger.state().position.offset
            end = min(len(log), at + most)
            ledger.apply(Position("log", at), log[at:end], end)

    def fence(self) -> None:
        for ledger, log in zip(self.ledgers, self.logs, strict=True):
            asked = ledger.shut(ledger.state().incarnation)
            assert asked is not None
            log.append(asked)
        self.fold()


def _without_incarnation(answer: Any) -> Any:
    if isinstance(answer, VoteState):
        return replace(answer, progress=answer.progress._replace(incarnation=0))
    if isinstance(answer, Granted):
        return answer._replace(incarnation=0)
    return replace(answer, incarnation=0) if hasattr(answer, "incarnation") else answer
