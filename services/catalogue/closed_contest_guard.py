"""Deletion guard: a participant with votes in a closed contest cannot be deleted."""

import asyncio

from libs.catalogue.contests.closing_record import Closing, closing_of
from libs.contracts.catalogue_events import Stored
from libs.tally.counts import VoteSums
from libs.tally.errors import ContestFinal, NotFound, ViewsUnavailable
from libs.views.catalogue_views import CatalogueViews
from libs.views.replies import ContestCounts
from libs.views.vote_views import VoteViews


class ClosedContests:
    """Checks deletions against the counts of closed contests; votes lie in `partitions` partitions."""

    def __init__(self, catalogue: CatalogueViews, votes: VoteViews, partitions: int) -> None:
        self._catalogue = catalogue
        self._votes = votes
        self._partitions = partitions

    async def participant_may_go(self, account: str, participant: Stored) -> int:
        """Implement `Guard` for participants.

        Raises `NotFound`, `ContestFinal`, and `ViewsUnavailable` while the contest is closing.
        """
        contest = await self._catalogue.get(account, "contests", participant.parent)
        if contest is None:
            raise NotFound(f"There is no contest {participant.parent}.")
        closing = closing_of(contest.document)
        if closing is not None and await self._has_votes(contest.key, closing, participant.key):
            raise ContestFinal(f"Participant {participant.key} has votes in a closed contest; reopen it first.")
        return contest.version

    async def _has_votes(self, contest: str, closing: Closing, participant: str) -> bool:
        found = await asyncio.gather(
            *(self._votes.counts(partition, contest) for partition in range(self._partitions))
        )
        parts = [part for part in found if part is not None]
        if any(part.closed < closing.seq for part in parts):
            raise ViewsUnavailable("The contest is closing; its votes are still being counted.", retry_after_s=1)
        return any(_counts(part, closing, participant) for part in parts)


def _counts(part: ContestCounts, closing: Closing, participant: str) -> bool:
    """Return whether this partition counts votes for the participant; sources use the closing's mapping."""
    if part.figures.get((participant, ""), VoteSums()).count:
        return True
    return any(
        key == participant and mapped in reported.figures and reported.figures[mapped].count > 0
        for name, reported in part.sources.items()
        if name in closing.sources
        for mapped, key in closing.sources[name].mapping.items()
    )
