"""Appends reserved votes to the log and confirms them; in doubt, waits for the fold."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from libs.contracts.codec import vote_codec
from libs.contracts.log_records import Appended
from libs.contracts.pseudonyms import receipt
from libs.contracts.topics import Topic
from libs.contracts.vote_states import VoteName, VoteState
from libs.tally.commands import CastVote, RemoveVote
from libs.tally.errors import AppendUnknown, IdempotencyKeyReused, NotAppended, TallyError, ViewsUnavailable
from libs.tally.events import VoteCast
from libs.tally.reservations import Granted, cast_of
from libs.telemetry.tracing import Tracing, appending, step
from libs.views.address_counters import AddressCounters
from libs.views.votes import VoteViews
from libs.voting.batching import ConfirmationBatcher
from libs.voting.partition_watch import PartitionWatch, Undecided
from libs.voting.timeouts import LOOK_WAIT_S
from libs.voting.vote_attempt import Attempt, ReceiptSecrets

_InDoubt = tuple[Attempt, Granted, int | None]
"""An attempt whose record may be in the log, and the record's offset where that is known."""


class Log(Protocol):
    """Interface of the log writer that appends records."""

    def submit(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None
    ) -> "asyncio.Future[Appended]": ...


@dataclass(frozen=True, slots=True)
class Recorder:
    """Sets the outcome of each attempt, or `doubted` if a fence rejected its record: it may be reserved again."""

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    log: Log
    confirmations: ConfirmationBatcher
    watch: PartitionWatch
    receipts: ReceiptSecrets
    tracing: Tracing | None = None

    async def record(self, granted: Sequence[tuple[Attempt, Granted]], deadline: float) -> None:
        """Append all of `granted` in order; those in doubt wait for the fold until `deadline` (loop time)."""
        if not granted:
            return
        acknowledged: list[tuple[Attempt, Granted, VoteCast, Appended, asyncio.Future[bool]]] = []
        in_doubt: list[_InDoubt] = []
        with appending(self.tracing, self.topic.name, len(granted)):
            sent = [
                (attempt, grant, *self._send(attempt.command, attempt.partition, grant))
                for attempt, grant in granted
            ]
            for attempt, grant, event, acknowledgement in sent:
                try:
                    place = await acknowledgement
                except NotAppended as error:
                    await self._release(attempt, grant, error)
                except AppendUnknown:
                    in_doubt.append((attempt, grant, None))
                else:
                    # only now: the confirmation must be newer than the acknowledgement
                    confirmation = self.confirmations.confirm(attempt.partition, grant.incarnation)
                    acknowledged.append((attempt, grant, event, place, confirmation))
        with step(self.tracing, "confirm"):
            for attempt, grant, event, place, confirmation in acknowledged:
                confirmed = False
                with suppress(ViewsUnavailable):
                    confirmed = await confirmation
                if confirmed and place.exact:
                    attempt.accept(grant, event.receipt, place.offset)
                else:
                    in_doubt.append((attempt, grant, place.offset if place.exact else None))
            if in_doubt:
                await self._settle(in_doubt, deadline)

    async def give_address(self, attempt: Attempt) -> None:
        """Give back the address's votes of an attempt that is never recorded. Best effort: counters expire."""
        command = attempt.command
        for participant in attempt.taken:
            with suppress(ViewsUnavailable):
                await self.addresses.give(command.contest, participant, command.address or "", attempt.taker)
        attempt.taken.clear()

    def _send(
        self, command: CastVote, partition: int, granted: Granted
    ) -> tuple[VoteCast, "asyncio.Future[Appended]"]:
        secret = self.receipts.at(granted.accepted_at)
        proof = receipt(secret, command.contest, command.voter, command.vote_id)
        event = cast_of(command, granted, proof)
        key = event.voter.encode()
        return event, self.log.submit(self.topic.name, partition, vote_codec.encode(event), key)

    async def _release(self, attempt: Attempt, granted: Granted, error: NotAppended) -> None:
        """Release the reservation of a record that is certainly not in the log, and the address's votes."""
        command = attempt.command
        attempt.outcome = error
        with suppress(ViewsUnavailable):  # an unreleased reservation is in doubt until a fence ends it
            await self.views.release(
                attempt.partition, command.contest, command.voter, command.vote_id, granted.incarnation
            )
        await self.give_address(attempt)

    async def _settle(self, in_doubt: Sequence[_InDoubt], deadline: float) -> None:
        """Wait until each vote is folded or fenced off; after `deadline`, for at least `LOOK_WAIT_S`."""
        deadline = max(deadline, asyncio.get_running_loop().time() + LOOK_WAIT_S)
        states = [
            self.watch.wait_for_vote(
                attempt.partition,
                Undecided(name_of(attempt.command), _is_folded, granted.incarnation, offset),
                deadline,
            )
            for attempt, granted, offset in in_doubt
        ]
        for (attempt, granted, _), state in zip(in_doubt, states, strict=True):
            self._decide(attempt, granted, await state)

    def _decide(self, attempt: Attempt, granted: Granted, state: VoteState | None) -> None:
        """Set the outcome by the folded state.

        Its answer may be that of another attempt's record; after a fence, even of a request with other content.
        """
        if state is None:
            unknown = "The vote may or may not have been recorded; send it again with the same vote id."
            attempt.outcome = AppendUnknown(unknown, retry_after_s=2)
        elif state.known is None:
            attempt.doubted = True
        elif state.content != attempt.command.content:
            attempt.outcome = reused(attempt.command)
        else:
            attempt.accept_duplicate(state.known, self.receipts, replayed=granted.joined)


def name_of(command: CastVote | RemoveVote) -> VoteName:
    return VoteName(command.contest, command.voter, command.vote_id)


def _is_folded(state: VoteState) -> bool:
    return state.known is not None


def reused(command: CastVote) -> TallyError:
    return IdempotencyKeyReused(f"This voter already used vote id {command.vote_id} for a different vote.")
