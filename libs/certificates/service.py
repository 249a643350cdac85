"""Seals a closed contest: ends its external sources, waits for every close marker, and changes the record."""

import asyncio
from collections.abc import Sequence
from typing import Final

from libs.catalogue.contests.closing_record import (
    Closing,
    Seal,
    closing_of,
    sealed,
    unsealed,
    votes_from,
    without_grace,
)
from libs.catalogue.errors import NotClosed
from libs.catalogue.records import RecordService
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.contest import Contest as ContestRecord
from libs.contracts.catalogue_events import Stored
from libs.contracts.votes_log import VotesLog
from libs.tally.errors import ViewsUnavailable
from libs.tally.time_conversion import microseconds, timestamp
from libs.views.reply_types import ClosingState
from libs.views.vote_views import VoteViews

DEADLINE_S: Final = 30.0
"""Timeout for a projector to decide a closing and append its close markers."""
POLL_S: Final = 0.1


class SealingService:
    """Seals contests of one account, whose votes are in `log`. Raises `NotFound` for an unknown contest."""

    def __init__(self, record_service: RecordService, votes: VoteViews, log: VotesLog, account: str) -> None:
        self._record_service = record_service
        self._votes = votes
        self._log = log
        self._account = account

    async def closing(self, contest: str) -> Closing:
        """Return the closing in force, with its markers in all partitions; after the contest's end, wait for them.

        Raises `NotClosed`, and `ViewsUnavailable` after `DEADLINE_S`.
        """
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while True:
            states = await self._states(contest)
            stored = await self._record_service.get(CONTESTS, self._account, contest)
            closing = closing_of(stored.document)
            if closing is None:
                _refuse_running(stored, min(state.now for state in states))
            elif all(state.closed >= closing.seq for state in states):
                return closing
            await _pause(deadline)

    async def reporting(self, contest: str, closing: Closing) -> list[str]:
        """Return the external sources without an end marker yet; retired ones end at once."""
        states = await self._states(contest)
        ended = {name for state in states for name, seq in state.sources.items() if seq >= closing.seq}
        return sorted(closing.sources.keys() - ended)

    async def end_grace(self, contest: str, closing: Closing) -> None:
        """End the reports of external sources. Raises `NotClosed` if the contest was reopened meanwhile."""
        now = max(state.now for state in await self._states(contest))
        await self._record_service.amend(
            CONTESTS, self._account, contest, lambda document: without_grace(document, closing.seq, now)
        )

    async def final(self, contest: str, closing: Closing) -> None:
        """Wait until every external source has ended. Raises `ViewsUnavailable` as `closing` does."""
        deadline = asyncio.get_running_loop().time() + DEADLINE_S
        while await self.reporting(contest, closing):
            await _pause(deadline)

    async def seal(self, contest: str, seal: Seal) -> Stored:
        """Seal the contest's record; repeatable. Raises `NotClosed` if the contest was reopened meanwhile."""
        written = await self._record_service.amend(
            CONTESTS, self._account, contest, lambda document: sealed(document, seal)
        )
        return written.stored

    async def unseal(self, contest: str) -> Stored:
        """Unseal the contest's record. Raises `NotSealed`."""
        return (await self._record_service.amend(CONTESTS, self._account, contest, unsealed)).stored

    async def _states(self, contest: str) -> Sequence[ClosingState]:
        stored = await self._record_service.get(CONTESTS, self._account, contest)
        numbers = self._log.topic_from(votes_from(stored.document)).numbers
        return [*(await self._votes.closings(numbers, contest)).values()]


def _refuse_running(stored: Stored, now: int) -> None:
    end = ContestRecord.model_validate(stored.document).contest_config.end
    if end is None:
        raise NotClosed("The contest is not closed: it has no end.")
    if now < microseconds(end):
        raise NotClosed(f"The contest is not closed: it ends at {timestamp(microseconds(end))}.")


async def _pause(deadline: float) -> None:
    if asyncio.get_running_loop().time() > deadline:
        raise ViewsUnavailable("The contest has ended, but is not closed yet; retry shortly.", retry_after_s=1)
    await asyncio.sleep(POLL_S)
