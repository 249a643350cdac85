"""All who listen to the same of one contest."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from libs.metrics.table import STREAM_MESSAGES
from libs.tally.contest import MILLION
from libs.tally.errors import NotFound, ViewsUnavailable
from services.query.snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache, now
from services.query.streams.renderers import View
from services.query.streams.subscriber import Subscriber
from services.query.streams.updates import ENDED, GONE, NOTHING, STALE, stale

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Listeners who are told in one go, a millisecond or two; then others have their turn."""
ANYWAY_US: Final = MILLION
"""A contest is looked at so often even if nothing seems to have moved."""
PING_US: Final = 15 * MILLION


class Channel:
    """Tells its listeners what is new of a contest, in two steps: `look`, then `tell`.

    Times are microseconds since 1970.
    """

    def __init__(self, snapshots: SnapshotCache, account: str, contest: str, view: View) -> None:
        self.account = account
        self.listeners: set[Subscriber] = set()
        self._snapshots = snapshots
        self._contest = contest
        self._view = view
        self._snapshot: Snapshot | None = None
        self._told = self._spread = NOTHING
        self._audience: Sequence[Subscriber] = ()
        self._has_new = self._is_missing = False
        self._looked_at = self._spoke_at = now()
        self._changes_at: int | None = None

    @property
    def is_over(self) -> bool:
        return not self.listeners or self._told.last

    def join(self, listener: Subscriber) -> None:
        """It is told what it missed by a look that begins later, never what was seen before it came."""
        self.listeners.add(listener)
        self._has_new = True

    def is_due(self, moment: int) -> bool:
        """Whether to look though nothing moved."""
        is_open = self._snapshot is None or self._is_missing
        return is_open or self._has_new or self._has_changed(moment) or moment >= self._looked_at + ANYWAY_US

    async def look(self) -> None:
        """Raises nothing: what goes wrong is told."""
        audience, has_new = tuple(self.listeners), self._has_new
        self._has_new = False
        try:
            self._take(await self._snapshots.newest(self.account, self._contest), now())
        except NotFound:
            # the next look comes after one at where the views stand: if they were emptied, it is not gone
            self._told = GONE if self._is_missing else self._told
            self._is_missing = True
        except ViewsUnavailable:
            self.lose_sight()
        except Exception:
            logger.exception("the streams of contest %s cannot go on", self._contest)
            self._told = ENDED
        self._audience = audience if has_new or self._told is not self._spread else ()

    def lose_sight(self) -> None:
        """The views are away: what was told last may not hold any more."""
        self._is_missing = False
        if self._told.heard.status != STALE:
            self._snapshot = None
            self._told = stale(self._looked_at)
            self._audience = tuple(self.listeners)

    async def tell(self) -> bool:
        """Everybody who has not heard; whether there was anything to tell."""
        audience, told = self._audience, self._told
        self._audience, self._spread = (), told
        spoke = await self._each(audience, lambda listener: listener.tell(told))
        if spoke:
            self._spoke_at = now()
            STREAM_MESSAGES.inc(spoke)
        return spoke > 0

    async def ping(self) -> None:
        """If nothing was said for a while."""
        if now() >= self._spoke_at + PING_US:
            self._spoke_at = now()
            await self._each(tuple(self.listeners), Subscriber.ping)

    def end(self) -> None:
        """Nobody hears anything more."""
        for listener in self.listeners:
            listener.tell(ENDED)

    async def _each(self, listeners: Sequence[Subscriber], say: Callable[[Subscriber], bool]) -> int:
        """To how many it was said."""
        said = 0
        for number, listener in enumerate(listeners, 1):
            if listener in self.listeners:
                try:
                    said += say(listener)
                except Exception:
                    logger.exception("a listener of contest %s could not be told", self._contest)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return said

    def _take(self, snapshot: Snapshot, moment: int) -> None:
        if snapshot is not self._snapshot or self._has_changed(moment):
            self._snapshot = snapshot
            self._told = self._view(snapshot.at(moment), moment)
            contest = snapshot.contest
            ahead = [at for at in (contest.publish, contest.start, contest.end) if at is not None and at > moment]
            self._changes_at = min(ahead, default=None)
        self._looked_at, self._is_missing = moment, False

    def _has_changed(self, moment: int) -> bool:
        """Whether a phase has begun since the last look."""
        return self._changes_at is not None and moment >= self._changes_at
