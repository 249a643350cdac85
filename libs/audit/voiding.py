"""Operations that remove votes of a contest from the count, and restore them: their events and their numbers."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from uuid_utils import uuid7

from libs.audit.recount import Ballots, VoidEvent
from libs.concurrency.tasks import becomes_true, retried
from libs.contracts.codec import vote_codec
from libs.deployment.deployment import Deployment
from libs.tally.errors import ViewsUnavailable
from libs.tally.events import VoteCast, VoteRestored, VoteVoided
from libs.tally.fold import ContestTally
from libs.tally.time_conversion import timestamp
from libs.tally.voter_ledger import VoteStatus

AT_ONCE: Final = 500
ATTEMPTS: Final = 5
"""Attempts per record with an unknown outcome or an error: the fold ignores duplicates."""
FOLD_WAIT_S: Final = 30.0

PlacedEvent = tuple[int, VoidEvent]
"""An event and its partition."""


def name_of_void() -> str:
    """Return a short name for a new operation; names sort by time."""
    made = uuid7().hex
    return f"{made[:12]}-{made[-6:]}"


def voiding(ballots: Ballots, matches: Callable[[VoteCast], bool], void: str, reason: str) -> list[PlacedEvent]:
    """Return the events by which operation `void` removes the matching votes that count now.

    It voids a vote only once, so restored votes stay restored.
    """
    contest, now = ballots.contest.key, time.time_ns() // 1000
    return [
        (ballot.partition, VoteVoided(contest, ballot.voter, ballot.vote.cast.vote_id, void, now, reason))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.COUNTED
        and matches(ballot.vote.cast)
        and all(event.void != void for event in ballot.vote.voids)
    ]


def restoring(ballots: Ballots, void: str) -> list[PlacedEvent]:
    """Return the events that restore the votes of operation `void`, except those replaced or removed since."""
    contest, now = ballots.contest.key, time.time_ns() // 1000
    return [
        (ballot.partition, VoteRestored(contest, ballot.voter, ballot.vote.cast.vote_id, void, now))
        for ballot in ballots
        if ballot.vote.status is VoteStatus.VOIDED and ballot.vote.void == void
    ]


async def append(deployment: Deployment, events: Sequence[PlacedEvent]) -> None:
    """Append each of `events` to its partition. Raises `LogUnavailable`; some may then be appended."""
    log, votes = await deployment.log(), deployment.votes.name

    async def append_one(partition: int, event: VoidEvent) -> None:
        value, key = vote_codec.encode(event), event.voter.encode()
        await retried(partial(log.append, votes, partition, value, key), ATTEMPTS)
        deployment.progress.advance(1)

    deployment.progress.begin("Recording", len(events))
    for at in range(0, len(events), AT_ONCE):
        await asyncio.gather(*(append_one(*event) for event in events[at : at + AT_ONCE]))


async def read_back(deployment: Deployment, ballots: Ballots, partitions: set[int]) -> dict[str, Any]:
    """Return the views' vote count record once `partitions` are folded to their current ends.

    Raises `ViewsUnavailable` after `FOLD_WAIT_S`.
    """
    topic, views = deployment.votes, deployment.vote_views
    ends = await deployment.reader.end_offsets(topic.name, partitions)

    async def has_folded() -> bool:
        states = await asyncio.gather(*map(views.state, ends))
        return all(state.position.offset >= end for state, end in zip(states, ends.values(), strict=True))

    if not await becomes_true(has_folded, FOLD_WAIT_S):
        late = f"All events are recorded, but were not processed within {FOLD_WAIT_S:.0f} s"
        raise ViewsUnavailable(late, retry_after_s=1)
    return await ballots.served(deployment)


@dataclass(slots=True)
class Operation:
    """Numbers of the votes that an operation voided.

    `gone` were replaced or removed while voided; `waiting` are events after the contest's close, not included in
    the other numbers.
    """

    void: str
    contest: str
    reason: str
    voided_at: str | None
    voided: int = 0
    restored: int = 0
    gone: int = 0
    waiting: int = 0

    @property
    def still_voided(self) -> int:
        return self.voided - self.restored - self.gone


def operations(tallies: Iterable[ContestTally]) -> list[Operation]:
    """Return all operations that voided votes, the first one first."""
    found: dict[tuple[str, str], Operation] = {}

    def of(event: VoteVoided) -> Operation:
        new = Operation(event.void, event.contest, event.reason, timestamp(event.voided_at))
        return found.setdefault((event.contest, event.void), new)

    for tally in tallies:
        for ledger in tally.voters.values():
            for vote in ledger.votes.values():
                for event in vote.voids:
                    operation, is_restored = of(event), vote.void != event.void
                    operation.voided += 1
                    operation.restored += is_restored
                    operation.gone += not is_restored and vote.status is not VoteStatus.VOIDED
        for event in _waiting(tally):
            of(event).waiting += 1
    return sorted(found.values(), key=lambda operation: operation.voided_at or "")


def _waiting(tally: ContestTally) -> Iterator[VoteVoided]:
    for (voter, vote_id), late in tally.waiting_voids.items():
        for event, _ in late:
            if isinstance(event, VoteVoided):
                yield event
            else:
                vote = tally.voters[voter].votes[vote_id]
                yield from (voided for voided in vote.voids if voided.void == event.void)
