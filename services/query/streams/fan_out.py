"""Fan-out of one contest's updates to the subscribers of one view."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Final

from libs.tally.contest import MILLION
from libs.tally.errors import NotFound, ViewsUnavailable
from libs.telemetry.metrics import STREAM_MESSAGES
from services.query.counts_snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache, now
from services.query.streams.counting_lag import NO_LAG, CountingLag
from services.query.streams.renderers import View
from services.query.streams.subscriber import Subscriber
from services.query.streams.subscriber_updates import ENDED, GONE, NOTHING, STALE, stale

logger = logging.getLogger(__name__)

AT_ONCE: Final = 100
"""Subscribers served in one go, a millisecond or two, before yielding to other tasks."""
ANYWAY_US: Final = MILLION
"""A contest is read at this interval even if no position changed."""
PING_US: Final = 15 * MILLION


class Channel:
    """Sends a contest's updates to its subscribers in two steps: `refresh`, then `publish`.

    Times are microseconds since 1970.
    """

    def __init__(self, snapshots: SnapshotCache, account: str, contest: str, view: View) -> None:
        self.account = account
        self.subscribers: set[Subscriber] = set()
        self._snapshots = snapshots
        self._contest = contest
        self._view = view
        self._snapshot: Snapshot | None = None
        self._latest = self._published = NOTHING
        self._recipients: Sequence[Subscriber] = ()
        self._has_new = self._is_missing = False
        self._read_at = self._sent_at = now()
        self._changes_at: int | None = None
        self._lag = NO_LAG

    @property
    def is_over(self) -> bool:
        return not self.subscribers or self._latest.last

    def join(self, subscriber: Subscriber) -> None:
        """Add a subscriber; it receives the state of the next `refresh`, never an earlier one."""
        self.subscribers.add(subscriber)
        self._has_new = True

    def is_due(self, moment: int, lag: CountingLag) -> bool:
        """Return whether to refresh though no position changed."""
        is_open = self._snapshot is None or self._is_missing
        is_late = lag != self._lag
        return (
            is_open or is_late or self._has_new or self._has_changed(moment) or moment >= self._read_at + ANYWAY_US
        )

    async def refresh(self, lag: CountingLag) -> None:
        """Read the contest, counted with this lag. Raises nothing: errors become updates."""
        recipients, has_new = tuple(self.subscribers), self._has_new
        self._has_new = False
        try:
            self._take(await self._snapshots.newest(self.account, self._contest), now(), lag)
        except NotFound:
            # confirmed by the next refresh, after the views' positions: emptied views do not mean a deletion
            self._latest = GONE if self._is_missing else self._latest
            self._is_missing = True
        except ViewsUnavailable:
            self.mark_stale()
        except Exception:
            logger.exception("the streams of contest %s are ended", self._contest)
            self._latest = ENDED
        self._recipients = recipients if has_new or self._latest is not self._published else ()

    def mark_stale(self) -> None:
        """Note that the views are unavailable: the data sent last may be outdated."""
        self._is_missing = False
        if self._latest.seen.status != STALE:
            self._snapshot = None
            self._latest = stale(self._read_at)
            self._recipients = tuple(self.subscribers)

    async def publish(self) -> bool:
        """Send the latest update to subscribers that lack it; return whether anything was sent."""
        recipients, update = self._recipients, self._latest
        self._recipients, self._published = (), update
        sent = await self._each(recipients, lambda subscriber: subscriber.publish(update))
        if sent:
            self._sent_at = now()
            STREAM_MESSAGES.inc(sent)
        return sent > 0

    async def ping(self) -> None:
        """Send a ping if nothing was sent for `PING_US`."""
        if now() >= self._sent_at + PING_US:
            self._sent_at = now()
            await self._each(tuple(self.subscribers), Subscriber.ping)

    def end(self) -> None:
        """End the stream of every subscriber."""
        for subscriber in self.subscribers:
            subscriber.publish(ENDED)

    async def _each(self, subscribers: Sequence[Subscriber], send: Callable[[Subscriber], bool]) -> int:
        """Call `send` for each; return for how many it returned True."""
        sent = 0
        for number, subscriber in enumerate(subscribers, 1):
            if subscriber in self.subscribers:
                try:
                    sent += send(subscriber)
                except Exception:
                    logger.exception("sending to a subscriber of contest %s failed", self._contest)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
        return sent

    def _take(self, snapshot: Snapshot, moment: int, lag: CountingLag) -> None:
        if snapshot is not self._snapshot or lag != self._lag or self._has_changed(moment):
            self._snapshot, self._lag = snapshot, lag
            self._latest = self._view(snapshot.at(moment), moment, lag)
            contest = snapshot.contest
            ahead = [at for at in (contest.publish, contest.start, contest.end) if at is not None and at > moment]
            self._changes_at = min(ahead, default=None)
        self._read_at, self._is_missing = moment, False

    def _has_changed(self, moment: int) -> bool:
        """Return whether a phase has begun since the last read."""
        return self._changes_at is not None and moment >= self._changes_at
