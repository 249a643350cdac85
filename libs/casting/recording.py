"""Reserved votes into the log: append, confirm; and when in doubt, ask the fold."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from libs.casting.attempts import Attempt
from libs.casting.reserver import Confirmer
from libs.casting.waiting import POLL_S
from libs.contracts.codec import vote_codec
from libs.contracts.log import Appended
from libs.contracts.pseudonyms import receipt
from libs.contracts.topics import Topic
from libs.kafka.errors import AppendUnknown, NotAppended
from libs.tally.admission import Granted, Known, cast_of
from libs.tally.commands import CastVote
from libs.tally.errors import IdempotencyKeyReused, TallyError, ViewsUnavailable
from libs.tally.events import VoteCast
from libs.telemetry.tracing import Tracing, appending, step
from libs.views.addresses import AddressCounters
from libs.views.votes import VoteViews


class Log(Protocol):
    """What recording needs of the log writer."""

    def submit(
        self, topic: str, partition: int, value: bytes, key: bytes | None = None
    ) -> "asyncio.Future[Appended]": ...


@dataclass(frozen=True, slots=True)
class Recorder:
    """Leaves each attempt with its outcome, or `doubted` without one: fenced off, it may be reserved again."""

    topic: Topic
    views: VoteViews
    addresses: AddressCounters
    log: Log
    confirmer: Confirmer
    server_key: bytes
    tracing: Tracing | None = None

    async def record(self, granted: Sequence[tuple[Attempt, Granted]], deadline: float) -> None:
        """Append all of `granted`, in order; `deadline` (loop time) bounds the wait of those in doubt."""
        if not granted:
            return
        landed: list[tuple[Attempt, Granted, VoteCast, Appended, asyncio.Future[bool]]] = []
        in_doubt: list[tuple[Attempt, Granted]] = []
        with appending(self.tracing, self.topic.name, len(granted)):
            sent = [
                (attempt, grant, *self._send(attempt.command, attempt.partition, grant))
                for attempt, grant in granted
            ]
            for attempt, grant, event, acknowledgement in sent:
                try:
                    place = await acknowledgement
                except NotAppended as error:
                    await self._take_back(attempt, grant, error)
                except AppendUnknown:
                    in_doubt.append((attempt, grant))
                else:
                    # asked only now: the answer must be younger than the acknowledgement
                    stands = self.confirmer.confirm(attempt.partition, grant.incarnation)
                    landed.append((attempt, grant, event, place, stands))
        with step(self.tracing, "confirm"):
            for attempt, grant, event, place, stands in landed:
                confirmed = False
                with suppress(ViewsUnavailable):
                    confirmed = await stands
                if confirmed and place.exact:
                    attempt.accept(grant, event.receipt, place.offset)
                else:
                    in_doubt.append((attempt, grant))
            if in_doubt:
                await asyncio.gather(*(self._settle(attempt, grant, deadline) for attempt, grant in in_doubt))

    async def give_address(self, attempt: Attempt) -> None:
        """Nothing of the vote is in the log, nor will be. Advisory: a counter has a life of its own."""
        command = attempt.command
        for participant in attempt.taken:
            with suppress(ViewsUnavailable):
                await self.addresses.give(command.contest, participant, command.address or "", attempt.taker)
        attempt.taken.clear()

    def _send(
        self, command: CastVote, partition: int, granted: Granted
    ) -> tuple[VoteCast, "asyncio.Future[Appended]"]:
        proof = receipt(self.server_key, command.contest, command.voter, command.vote_id)
        event = cast_of(command, granted, proof)
        key = event.voter.encode()
        return event, self.log.submit(self.topic.name, partition, vote_codec.encode(event), key)

    async def _take_back(self, attempt: Attempt, granted: Granted, error: NotAppended) -> None:
        """Give back what a record that is certainly not in the log held."""
        command = attempt.command
        attempt.outcome = error
        with suppress(ViewsUnavailable):  # a reservation that stays is in doubt, and a fence ends it
            await self.views.release(
                attempt.partition, command.contest, command.voter, command.vote_id, granted.incarnation
            )
        await self.give_address(attempt)

    async def _settle(self, attempt: Attempt, granted: Granted, deadline: float) -> None:
        """Wait until the fold shows the vote, or a fence without it.

        What the fold shows may be another attempt's record, so its answer is the one to give; after a fence even
        that of a request with other content, for which this one came too late.
        """
        command = attempt.command
        while True:
            with suppress(ViewsUnavailable):
                state = await self.views.lookup(attempt.partition, command.contest, command.voter, command.vote_id)
                if state.known is not None:
                    self._show(attempt, state.known, state.content, replayed=granted.joined)
                    return
                if state.open and state.incarnation != granted.incarnation:
                    attempt.doubted = True
                    return
            if asyncio.get_running_loop().time() + POLL_S > deadline:
                unknown = "Whether the vote was recorded is not known yet; send the same vote id again."
                attempt.outcome = AppendUnknown(unknown, retry_after_s=2)
                return
            await asyncio.sleep(POLL_S)

    def _show(self, attempt: Attempt, known: Known, content: str | None, *, replayed: bool) -> None:
        if content != attempt.command.content:
            attempt.outcome = reused(attempt.command)
        else:
            attempt.answer_again(known, self.server_key, replayed=replayed)


def reused(command: CastVote) -> TallyError:
    return IdempotencyKeyReused(f"Vote id {command.vote_id} was used by this voter for another vote.")
