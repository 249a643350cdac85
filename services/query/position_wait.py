"""Waits until the views reach a position, with one poll loop per process that runs only on demand."""

import asyncio
from collections import Counter
from collections.abc import Mapping

from libs.concurrency.tasks import SingleFlight
from libs.tally.errors import ViewsUnavailable
from libs.views.votes.vote_views import VoteViews

POLL_S = 0.005


class PositionWatch:
    """Polls positions for all requests with a `min_position`."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._wanted = Counter[int]()
        """Requests that wait for each partition."""
        self._reads = SingleFlight(self._offsets, POLL_S)

    async def reach(self, wanted: Mapping[int, int], within_s: float) -> None:
        """Wait for each partition's next offset to be at least the wanted one. Raises `ViewsUnavailable`."""
        self._wanted.update(wanted.keys())
        try:
            async with asyncio.timeout(within_s):
                while True:
                    offsets = await self._reads.next()
                    if all(offsets.get(partition, -1) >= offset for partition, offset in wanted.items()):
                        return
        except TimeoutError:
            late = f"The counts have not reached that position within {within_s:g} s."
            raise ViewsUnavailable(late, retry_after_s=1) from None
        finally:
            self._wanted.subtract(wanted.keys())

    async def _offsets(self) -> dict[int, int]:
        """Return the next offset of each wanted partition; none while the views are unavailable."""
        self._wanted = +self._wanted
        try:
            marks = await self._views.live.all_marks(sorted(self._wanted))
        except ViewsUnavailable:
            return {}
        return {p: mark.position.offset if mark.position else 0 for p, mark in marks.items()}
