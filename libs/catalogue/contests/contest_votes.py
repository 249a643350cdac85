"""The votes of contests, as far as changes of their records depend on them."""

import asyncio
from collections.abc import Callable

from libs.catalogue.contests.closing_record import Closing, closing_of, votes_from
from libs.contracts.catalogue_events import Stored
from libs.contracts.topics import Topic, VotesLog
from libs.tally.counts import VoteSums
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.tally.voter_ledger import VoteStatus
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.votes.reply_types import ContestCounts
from libs.views.votes.vote_views import VoteViews


class ContestVotes:
    """The votes in `log` of an environment's contests. New contests have theirs in `topic_of_new()`."""

    def __init__(
        self, catalogue: CatalogueViews, votes: VoteViews, log: VotesLog, topic_of_new: Callable[[], Topic]
    ) -> None:
        self._catalogue = catalogue
        self._votes = votes
        self._log = log
        self.topic_of_new = topic_of_new

    async def contest_of(self, account: str, participant: Stored) -> Stored:
        """Return a participant's contest. Raises `NotFound`."""
        contest = await self._catalogue.get(account, "contests", participant.parent)
        if contest is None:
            raise NotFound(f"Contest {participant.parent} not found.")
        return contest

    async def were_cast(self, contest: Stored) -> bool:
        """Return whether votes were cast that count, may count again, or are about to count.

        A vote that is cast after this check, in the milliseconds until a change of the contest's type is folded,
        keeps the form of the former type: it counts as one vote, and has no rating or positions.
        """
        if any(_voted(part) for part in await self._counts(contest)):
            return True
        states = await self._votes.closings(self._partitions(contest), contest.key)
        return any(state.pending for state in states.values())

    async def count_at_closing(self, contest: Stored, participant: str) -> bool:
        """Return whether the contest is closed with votes for the participant.

        Raises `ViewsUnavailable` while it is closing.
        """
        closing = closing_of(contest.document)
        if closing is None:
            return False
        parts = await self._counts(contest)
        if any(part.closed < closing.seq for part in parts):
            raise ViewsUnavailable("The contest is closing; its votes are still being counted.", retry_after_s=1)
        return any(_counts(part, closing, participant) for part in parts)

    async def _counts(self, contest: Stored) -> list[ContestCounts]:
        counts = (self._votes.counts(partition, contest.key) for partition in self._partitions(contest))
        return [part for part in await asyncio.gather(*counts) if part is not None]

    def _partitions(self, contest: Stored) -> range:
        return self._log.topic_from(votes_from(contest.document)).numbers


def _voted(part: ContestCounts) -> bool:
    return bool(part.sources) or any(
        count for status, count in part.ids.items() if status is not VoteStatus.REMOVED
    )


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
