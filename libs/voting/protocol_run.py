"""One protocol in progress: its deadlines, and its place after another vote of its voter."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, Final

from libs.contracts.vote_states import VoteName
from libs.tally.errors import LedgerCatchingUp, LogUnavailable, ViewsUnavailable
from libs.tally.reservations import Answer, GateClosed, Granted, Reserved, Stale, Taken
from libs.tally.vote_commands import CastVote, RemoveVote
from libs.voting.protocol import effects

GATE_WAIT_S: Final = 2.0
"""Wait for a closed gate, or for a current configuration, before the answer is 503."""
SETTLE_WAIT_S: Final = 8.0
"""Wait for a record in doubt: covers the producer's delivery timeout, a fence, and the fold up to it."""
MOST_TOGETHER: Final = 16
"""Votes of a voter that are reserved together: a call has so many more than others at most."""
QUEUED, SENT, ENDED = 1, 2, 3
"""Stages of a run: its reservation is queued; its record is handed to the log, or there will be none; ended."""
GAVE_UP: Final = LedgerCatchingUp, LogUnavailable, ViewsUnavailable
"""Results of a run that may have waited until its deadline."""
Finish = Callable[[Any], None]
"""Called once, with the protocol's result, or with the exception of a defect."""
Reply = Callable[[Any], None]
"""Called once per effect, with its reply, or with the exception of a defect."""


class Run:
    """One protocol in progress. Its deadlines are of the loop's clock; `span` is None if it is not traced.

    The run that is `after` it waits for its stages, so that their records are in the log in this order.
    """

    __slots__ = (
        "account",
        "after",
        "command",
        "finish",
        "following",
        "gate_deadline",
        "gave_up",
        "incarnation",
        "loop",
        "partition",
        "place",
        "reply",
        "reserved",
        "settle_deadline",
        "span",
        "stage",
        "steps",
    )

    def __init__(
        self,
        steps: effects.Steps[Any],
        account: str,
        command: CastVote | RemoveVote,
        partition: int,
        loop: asyncio.AbstractEventLoop,
        finish: Finish,
        after: "Run | None",
    ) -> None:
        self.steps = steps
        self.account = account
        self.command = command
        self.partition = partition
        self.finish: Finish | None = finish
        self.loop = loop
        self.set_deadlines()
        self.reply: Reply = finish
        self.reserved: Answer | None = None
        """Answer to the reservation that was made with the use of an address's limit."""
        self.span: ExitStack | None = None
        self.after = after
        self.stage = 0
        self.incarnation: int | None = None
        """The fence epoch under which its record was sent."""
        self.gave_up = False
        self.following: tuple[int, Callable[[], object]] | None = None
        """What the run after it does at a stage of this one."""
        self.place = 0
        """Place among the votes of the voter that are reserved together, from 1 on; 0 until it is queued."""

    def set_deadlines(self) -> None:
        now = self.loop.time()
        self.settle_deadline = now + SETTLE_WAIT_S
        self.gate_deadline = now + GATE_WAIT_S

    def then(self, stage: int, action: Callable[[], object]) -> None:
        """Act when the vote before this one has reached the stage: at once if it has."""
        if self.after is None or self.after.stage >= stage:
            action()
        else:
            self.after.following = stage, partial(self._go_on, action)

    def _go_on(self, action: Callable[[], object]) -> None:
        """Act with deadlines of its own, unless those of the vote before have passed."""
        if self.after is not None and not self.after.gave_up:
            self.set_deadlines()
        action()

    def note(self, stage: int) -> None:
        """Note that it has reached a stage. The next vote that waits to be queued is, to share a call with it."""
        self.stage = max(self.stage, stage)
        if self.following is not None and self.following[0] <= self.stage:
            (_, action), self.following = self.following, None
            if stage == QUEUED:
                action()
            else:
                self.loop.call_soon(action)
        if stage == ENDED:
            self.after = None

    @property
    def name(self) -> VoteName:
        return VoteName(self.command.contest, self.command.voter, self.command.vote_id)

    def begin(self) -> None:
        """Begin beside the vote before, since one call decides both in their order, or else when it is sent."""
        before = self.after
        if before is None or before.stage >= SENT or 0 < before.place < MOST_TOGETHER:
            self.reply(None)
        else:
            self.then(SENT if before.place else QUEUED, self.begin)

    def queue(self) -> bool:
        """Take the next place in a call. Return whether it joins the vote before, which was queued just now."""
        before = self.after
        joins = before is not None and before.stage == QUEUED
        self.place = before.place + 1 if before is not None and joins else 1
        return joins

    def take_reservation(self, reserved: Reserved | Exception) -> None:
        """Reply to a reservation."""
        if isinstance(reserved, Reserved):
            self.take_answer(reserved.answer)
        else:
            self.reply(reserved)

    def take_answer(self, answer: Answer) -> None:
        """Reply with the ledger's answer when the vote before is sent, or has ended if that may be recorded again.

        It may be if this one has no answer yet, or one under another fence epoch.
        """
        before = self.after
        if before is None:
            self.reply(answer)
            return
        is_after_fence = isinstance(answer, Granted) and before.incarnation not in (None, answer.incarnation)
        stage = ENDED if is_after_fence or isinstance(answer, (GateClosed, Stale)) else SENT
        if before.stage >= stage:
            self.reply(answer)
        else:
            self.then(stage, partial(self.take_answer, answer))

    def take_address(self, participant: str, reserved: Reserved | Exception) -> None:
        """Reply to the use of an address's limit, and keep the answer to the reservation made with it."""
        if isinstance(reserved, Exception):
            self.reply(reserved)
            return
        self.reserved, use = reserved
        is_full = use is not None and use.taken is Taken.FULL
        held = () if use is None or is_full else (participant,)
        self.reply(effects.AddressTaken(held, use.used if use is not None and is_full else None))
