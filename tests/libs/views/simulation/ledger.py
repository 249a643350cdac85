"""The ledger of a partition for the simulated services, kept by the model or by Valkey's functions."""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from libs.contracts.log_records import Position
from libs.contracts.vote_states import VoteState
from libs.tally.contest import DAY_US, Contest
from libs.tally.events import Event, Fence
from libs.tally.fold import PartitionTally
from libs.tally.reservations import Answer, RemovalAnswer
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.views.reply_types import ClosingState, PartitionState, VoterAllowance

BEGIN_MS: Final = 47_500 * DAY_US // 1000 - 200
"""Start of the simulated clock, which advances a millisecond a turn: shortly before a midnight that is still far
off, since Valkey's own clock must not overtake it."""


class Ledger(Protocol):
    """One partition. The calls mean what those of `VoteViews` of the same name mean."""

    def reserve(self, contest: Contest, command: CastVote, *, declined: bool = False) -> Answer:
        """`declined`: the worker refuses the vote by a rule of its own."""

    def release(self, command: CastVote, incarnation: int) -> None: ...

    def remove(self, contest: Contest, command: RemoveVote) -> RemovalAnswer: ...

    def refund(self, command: CastVote) -> RemovalAnswer: ...

    def release_removal(self, command: CastVote | RemoveVote, incarnation: int) -> None: ...

    def confirm(self, incarnation: int) -> bool: ...

    def raise_config(self, contest: str, version: int) -> None: ...

    def put_in_force(self, contest: Contest, incarnation: int) -> bool: ...

    def need(self, fence: Fence, catalogue_end: int) -> None:
        """Of the one partition that the simulated catalogue has."""

    def shut(self, incarnation: int, forget_clock: bool = False) -> Fence | None: ...

    def apply(self, start: Position, events: Sequence[Event], end: int) -> None:
        """Fold consecutive events that end before offset `end`."""

    def state(self) -> PartitionState: ...

    def lookup(self, command: CastVote | RemoveVote) -> VoteState: ...

    def allowance(self, contest: str, voter: str) -> VoterAllowance: ...

    def closing(self, contest: str) -> ClosingState: ...

    def differences(self, tally: PartitionTally) -> list[str]:
        """Return the differences between the view and `tally`; empty if there are none."""

    def snapshot(self) -> Any:
        """The present content of the server."""

    def restart(self, snapshot: Any, clock_step_ms: int = 0) -> None:
        """Come back as another server, holding only `snapshot`, its clock off by `clock_step_ms`."""

    def tick(self, turns: int = 1) -> None:
        """Time passes: a millisecond a turn."""
