"""Plays the voting protocols: replies to their effects, one by one."""

from collections.abc import Sequence
from typing import Any

from libs.contracts.log_records import Appended, Position
from libs.contracts.vote_states import FoldProgress, VoteState
from libs.tally.events import Choices
from libs.tally.reservations import Duplicate, Granted, VoteTerms
from libs.tally.voter_ledger import VoteStatus
from libs.voting.protocol.effects import Effect, Steps

APPENDED = Appended(0, 40, True)


def play(steps: Steps[Any], *replies: Any) -> tuple[list[Effect], Any]:
    """Return the effects and the result; None if the protocol waits for one more reply."""
    effects: list[Effect] = []
    for reply in (None, *replies):
        try:
            effects.append(steps.send(reply))
        except StopIteration as end:
            assert len(effects) == len(replies), f"ended after {effects}"
            return effects, end.value
    return effects, None


def names(effects: Sequence[Effect]) -> list[str]:
    return [type(effect).__name__ for effect in effects]


def terms(accepted_at: int = 1_000, choices: Choices = (("a", 1),)) -> VoteTerms:
    return VoteTerms(accepted_at, 0, None, None, choices)


def granted(**changes: Any) -> Granted:
    given: dict[str, Any] = {
        "joined": False,
        "terms": terms(),
        "incarnation": 7,
        "epoch": 0,
        "config": 3,
        "max_participant": 1,
        "max_contest": -1,
        "form": "plain",
    }
    return Granted(**{**given, **changes})


def progress(incarnation: int = 7, *, is_open: bool = True, offset: int = 1) -> FoldProgress:
    return FoldProgress(Position("log", offset), is_open, incarnation)


def folded(content: str, status: VoteStatus = VoteStatus.COUNTED, **changes: Any) -> VoteState:
    given: dict[str, Any] = {"terms": terms(accepted_at=900), "offset": 30, "content": content}
    return VoteState(progress(), status=status, **{**given, **changes})


def duplicate(status: VoteStatus = VoteStatus.COUNTED) -> Duplicate:
    return Duplicate(terms(accepted_at=900, choices=()), 30, status)
