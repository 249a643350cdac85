"""Detects changes of the views' positions, with one read for all streams of a process."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Final

from libs.contracts.topics import VotesLog
from libs.tally.errors import RECOVERING, ViewsUnavailable
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.views.valkey.connection import NO_ANSWER
from libs.views.valkey.partition_reads import Mark
from libs.views.valkey.watched_reads import WatchedMarks
from libs.views.votes.vote_views import VoteViews

LOOK_S: Final = 2.0
"""Time after which the views count as unavailable."""


View = tuple[str, int]
"""A topic and a partition."""


class ChangeDetector:
    """Stores the views' last marks."""

    def __init__(self, views: VoteViews, catalogue: CatalogueViews, votes: VotesLog) -> None:
        self._watched = WatchedMarks(views.live)
        self._catalogue = catalogue
        self._votes = votes
        self._marks: dict[View, Mark] = {}
        self._positions: Mapping[int, int] = {}

    async def moved(self, catalogue: Iterable[int]) -> bool:
        """Return whether any mark changed since the last call; of the catalogue, only in these partitions.

        Raises `ViewsUnavailable` while the views are unavailable, or are folded again and behind their last
        position.
        """
        try:
            async with asyncio.timeout(LOOK_S):
                votes, records = await asyncio.gather(
                    self._watched.changed_marks(self._votes.numbers),
                    asyncio.gather(*(self._of_catalogue(partition) for partition in set(catalogue))),
                )
        except TimeoutError:
            raise ViewsUnavailable(NO_ANSWER, retry_after_s=1, cause=f"no answer within {LOOK_S:g} s") from None
        found: dict[View, Mark] = {("votes", partition): mark for partition, mark in votes.items()}
        found.update(records)
        if any(view in self._marks and _is_behind(self._marks[view], mark) for view, mark in found.items()):
            raise ViewsUnavailable(RECOVERING, retry_after_s=1, cause="the views are being folded again")
        moved = any(self._marks.get(view) != mark for view, mark in found.items())
        self._marks |= found
        self._positions = {
            partition: 0 if mark.position is None else mark.position.offset for partition, mark in votes.items()
        }
        return moved

    @property
    def positions(self) -> Mapping[int, int]:
        """Positions of votes that the last look has read, as they may have changed: next offsets by partition."""
        return self._positions

    async def _of_catalogue(self, partition: int) -> tuple[View, Mark]:
        return ("catalogue", partition), await self._catalogue.mark(partition)


def _is_behind(held: Mark, found: Mark) -> bool:
    if held.position is None or found.position is None:
        return held.position is not None
    return found.position.log_id == held.position.log_id and found.position.offset < held.position.offset
