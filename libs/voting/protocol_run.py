"""One protocol in progress: its pending effect, its deadlines, and its place among the votes of a request."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import Context
from typing import Any, Final

from libs.contracts.vote_states import VoteName
from libs.tally.reservations import Request
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.voting.protocol.effects import Effect, Steps

GATE_WAIT_S: Final = 2.0
"""Wait for a closed gate, or for a current configuration, before the answer is 503."""
SETTLE_WAIT_S: Final = 8.0
"""Wait for a record in doubt: covers the producer's delivery timeout, a fence, and the fold up to it."""
Finish = Callable[[Any], None]
"""Called once, with the protocol's result, or with the exception of a defect. It must not raise."""


class Run:
    """One protocol in progress. Its deadlines are of the loop's clock.

    The run `before` it is of the same voter and request, and has not ended; `after` is the next one. If it
    `is_held`, its reservation waits until the one before has ended, or shares that one's call.
    """

    __slots__ = (
        "account",
        "after",
        "before",
        "command",
        "context",
        "effect",
        "finish",
        "gate_deadline",
        "is_counted",
        "is_held",
        "joins",
        "loop",
        "partition",
        "request",
        "reserve_deadline",
        "settle_deadline",
        "span",
        "steps",
    )

    def __init__(
        self,
        steps: Steps[Any],
        account: str,
        command: CastVote | RemoveVote,
        partition: int,
        finish: Finish,
        context: Context | None = None,
    ) -> None:
        self.steps = steps
        self.account = account
        self.command = command
        self.partition = partition
        self.finish: Finish | None = finish
        """None once it has ended."""
        self.loop = asyncio.get_running_loop()
        self.start_clock()
        self.effect: Effect | None = None
        """The effect that waits for its reply; None before the first one, and after the last."""
        self.request: Request | None = None
        """The request that a group reserves for the pending effect."""
        self.reserve_deadline = 0.0
        self.joins = False
        """True if the call that reserves it must be that of the run queued just before."""
        self.is_counted = False
        """True while the queue of groups counts it as in progress."""
        self.before: Run | None = None
        self.after: Run | None = None
        self.is_held = False
        self.context = context
        """The context of a traced request, whose `span` is that of the pending effect."""
        self.span = None if context is None else ExitStack()

    def start_clock(self) -> None:
        now = self.loop.time()
        self.settle_deadline = now + SETTLE_WAIT_S
        self.gate_deadline = now + GATE_WAIT_S

    @property
    def has_begun(self) -> bool:
        return self.effect is not None or self.finish is None

    @property
    def name(self) -> VoteName:
        return VoteName(self.command.contest, self.command.voter, self.command.vote_id)
