"""What the simulated services ask of a partition's ledger, whichever keeps it: the model or Valkey's functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from libs.contracts.log import Position
from libs.tally.admission import Answer
from libs.tally.commands import CastVote
from libs.tally.contest import Contest
from libs.tally.events import Event, Fence
from libs.tally.tallies import PartitionTally
from libs.views.votes import PartitionState, UsedVotes, VoteState


class Ledger(Protocol):
    """One partition. The calls mean what those of `VoteViews` of the same name mean."""

    def reserve(self, contest: Contest, command: CastVote) -> Answer: ...

    def release(self, command: CastVote, incarnation: int) -> None: ...

    def confirm(self, incarnation: int) -> bool: ...

    def raise_config(self, contest: str, version: int, incarnation: int | None = None) -> None: ...

    def shut(self, incarnation: int) -> Fence | None: ...

    def apply(self, start: Position, events: Sequence[Event], end: int) -> None:
        """Fold consecutive events that end before offset `end`."""

    def state(self) -> PartitionState: ...

    def lookup(self, command: CastVote) -> VoteState: ...

    def allowance(self, contest: str, voter: str) -> list[UsedVotes]: ...

    def differences(self, tally: PartitionTally) -> list[str]:
        """Where the view is another one than `tally`; empty when it is the same."""

    def snapshot(self) -> Any:
        """All that the server holds now."""

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        """Come back as another server, holding only `snapshot`, its clock off by `clock_step_ms`."""

    def tick(self) -> None:
        """Time passes."""
