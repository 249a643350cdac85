"""Records the replies by which the counts of a contest are read."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from libs.views.votes.counts_replies import LAST, ROWS, UPTO
from tests.support.clients.vote_views import VoteViews


class CountCalls:
    """Sizes of the replies of `votes_counts`: rows (0 where nothing changed), and figures of external sources.

    `between` is awaited after each reply but the last one of a read.
    """

    def __init__(self, views: VoteViews, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[int] = []
        self.figures: list[int] = []
        self.between: Callable[[], Awaitable[None]] | None = None
        self._read = views._counts
        monkeypatch.setattr(views, "_counts", self._watched)

    async def _watched(self, *args: Any) -> list[Any]:
        reply = await self._read(*args)
        self.rows.append(len(reply[ROWS] or []) // 2)
        self.figures.append(len(reply[7]))
        if self.between is not None and reply[UPTO] < reply[LAST]:
            await self.between()
        return reply
