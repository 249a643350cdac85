"""Waits until the views reach a position, with one poll loop per process that runs only on demand."""

import asyncio
from collections.abc import Mapping

from libs.tally.errors import ViewsUnavailable
from libs.views.votes.vote_views import VoteViews

POLL_S = 0.005

Waiter = tuple[Mapping[int, int], "asyncio.Future[None]"]


class PositionWatch:
    """Polls positions for all requests with a `min_position`."""

    def __init__(self, views: VoteViews) -> None:
        self._views = views
        self._waiting: list[Waiter] = []
        self._task: asyncio.Task[None] | None = None

    async def reach(self, wanted: Mapping[int, int], within_s: float) -> None:
        """Wait for each partition's next offset to be at least the wanted one. Raises `ViewsUnavailable`."""
        waiter: Waiter = wanted, asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        if self._task is None:
            self._task = asyncio.ensure_future(self._poll())
        try:
            async with asyncio.timeout(within_s):
                await waiter[1]
        except TimeoutError:
            late = f"The counts have not reached that position within {within_s:g} s."
            raise ViewsUnavailable(late, retry_after_s=1) from None
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)

    async def _poll(self) -> None:
        try:
            while self._waiting:
                for waiter in await self._arrived():
                    self._waiting.remove(waiter)
                    if not waiter[1].done():
                        waiter[1].set_result(None)
                if self._waiting:
                    await asyncio.sleep(POLL_S)
        except Exception as error:
            for _, future in self._waiting:
                if not future.done():
                    future.set_exception(error)
        finally:
            self._task = None

    async def _arrived(self) -> list[Waiter]:
        """Return the waiters whose position is reached; none while the views are unavailable."""
        partitions = sorted({partition for wanted, _ in self._waiting for partition in wanted})
        try:
            marks = await self._views.live.all_marks(partitions)
        except ViewsUnavailable:
            return []
        offsets = {p: mark.position.offset if mark.position else 0 for p, mark in marks.items()}
        return [w for w in self._waiting if all(offsets.get(p, -1) >= offset for p, offset in w[0].items())]
