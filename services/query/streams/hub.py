"""All streams of a process: one loop detects changes and sends them to the subscribers.

The loop sends at most ten times a second and takes at most half a core, for any number of subscribers.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from libs.catalogue.contests.wall_links import HEADER, Viewers
from libs.concurrency.tasks import end_tasks
from libs.contracts.topics import Topic
from libs.tally.contest import MILLION
from libs.tally.errors import NotFound, TallyError, ViewsUnavailable
from libs.telemetry.metrics import STREAM_MESSAGES, STREAMS_OPEN
from libs.web.door.auth import AddressRefused, header
from libs.web.errors import Unauthorized
from libs.web.server.hot_requests import Header
from services.query.counts_snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache, now
from services.query.streams import sse_events as events
from services.query.streams.change_detector import ChangeDetector
from services.query.streams.counting_lag import NO_LAG, CountingLag, LagMeter
from services.query.streams.renderers import View
from services.query.streams.subscriber import ENDED, GONE, NOTHING, STALE, Credentials, Seen, Subscriber, stale

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


READ_INTERVAL_S: Final = 0.025
SEND_INTERVAL_S: Final = 0.1
CHECKED_EVERY_S: Final = 2.0
"""Interval of checks for revoked keys."""
CREDENTIALS: Final = (b"authorization", b"cookie", HEADER, b"x-forwarded-for", b"forwarded")
HEADERS: Final[list[Header]] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]

OPEN_TO_KEYS, OPEN_TO_ALL = STREAMS_OPEN.labels("counts"), STREAMS_OPEN.labels("results")

Name = tuple[str, str, View]
"""A channel's account, contest, and view."""


class StreamHub:
    """Routes subscribers to channels. They are served while `running` is entered; `end` ends all streams."""

    def __init__(
        self,
        viewers: Viewers,
        snapshots: SnapshotCache,
        changes: ChangeDetector,
        meter: LagMeter,
        catalogue: Topic,
    ) -> None:
        self._viewers = viewers
        self._snapshots = snapshots
        self._changes = changes
        self._meter = meter
        self._lag = NO_LAG
        self._catalogue = catalogue
        self._channels: dict[Name, Channel] = {}
        self._wanted = asyncio.Event()
        self._has_ended = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Run the loop, the checks of keys and the meter as tasks until the context ends."""
        runs = self._run(), self._watch_keys(), self._meter.watch(self._wanted)
        tasks = [asyncio.create_task(run) for run in runs]
        try:
            yield
        finally:
            await end_tasks(tasks)
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    def end(self) -> None:
        """End all streams; later ones end at once."""
        self._has_ended = True
        for channel in self._channels.values():
            channel.end()

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, snapshot: Snapshot, view: View, is_keyed: bool
    ) -> None:
        """Serve a stream that begins with `snapshot`, until the client disconnects or the stream ends.

        If it `is_keyed`, it ends when the key or the link is revoked.
        """
        moment = now()
        update = view(snapshot.at(moment), moment, self._lag)
        message = update.delta(Seen(None, header(scope["headers"], b"last-event-id")))
        assert message is not None
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send(message | {"body": events.RETRY + message["body"]})
        STREAM_MESSAGES.inc()
        subscriber = Subscriber(send, update.seen, _credentials(scope) if is_keyed else None)
        channel = self._join(subscriber, (snapshot.account, snapshot.contest.key, view))
        try:
            with (OPEN_TO_KEYS if is_keyed else OPEN_TO_ALL).track_inprogress():
                while (await receive())["type"] != "http.disconnect":
                    pass
        finally:
            channel.subscribers.discard(subscriber)
            subscriber.close()

    def _join(self, subscriber: Subscriber, name: Name) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(self._snapshots, *name)
        channel.join(subscriber)
        self._wanted.set()
        if self._has_ended:
            subscriber.publish(ENDED)
        return channel

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            began, used, sent = loop.time(), time.thread_time(), False
            try:
                sent = await self._round()
            except Exception:
                logger.exception("a round of the streams failed")
            whole = max(SEND_INTERVAL_S if sent else READ_INTERVAL_S, 2 * (time.thread_time() - used))
            since = loop.time() if sent else began  # after a slow round the next one would send at once
            await asyncio.sleep(max(0.0, since + whole - loop.time()))

    async def _round(self) -> bool:
        """Read and send changes once; return whether anything was sent."""
        moment = now()
        channels = due = tuple(self._channels.values())
        try:
            moved = await self._changes.moved(
                self._catalogue.partition_of(channel.account) for channel in channels
            )
        except ViewsUnavailable:
            for channel in channels:
                channel.mark_stale()
        else:
            self._meter.move(self._changes.positions)
            lag = self._lag = self._meter.lag(moment)
            due = tuple(channel for channel in channels if moved or channel.is_due(moment, lag))
            await asyncio.gather(*(channel.refresh(lag) for channel in due))
        sent = [await channel.publish() for channel in due]
        for channel in channels:
            await channel.ping()
        self._drop_ended()
        return any(sent)

    async def _watch_keys(self) -> None:
        """End the streams of revoked keys, apart from the rounds: thousands of checks would delay one."""
        while True:
            await self._wanted.wait()
            try:
                await self._end_revoked()
            except Exception:
                logger.exception("a check of the streams' keys failed")
            await asyncio.sleep(CHECKED_EVERY_S)

    async def _end_revoked(self) -> None:
        """End the streams of revoked keys and expired sessions."""
        subscribers = [subscriber for channel in self._channels.values() for subscriber in channel.subscribers]
        credentials = [*{subscriber.credentials for subscriber in subscribers if subscriber.credentials}]
        revoked = set[Credentials]()
        for at in range(0, len(credentials), AT_ONCE):
            some = credentials[at : at + AT_ONCE]
            # concurrently: reads of keys that are not cached are then shared
            validity = await asyncio.gather(*map(self._is_valid, some))
            revoked |= {each for each, is_valid in zip(some, validity, strict=True) if not is_valid}
            await asyncio.sleep(0)
        for subscriber in subscribers:
            if subscriber.credentials in revoked:
                subscriber.publish(ENDED)

    async def _is_valid(self, credentials: Credentials) -> bool:
        scope = {"method": "GET", "client": credentials.peer, "headers": credentials.headers}
        try:
            await self._viewers.authenticate(scope)
        except (Unauthorized, AddressRefused):
            return False
        except TallyError:
            return True  # unknown at the moment
        return True

    def _drop_ended(self) -> None:
        for name, channel in tuple(self._channels.items()):
            if channel.is_over:
                channel.end()
                del self._channels[name]
        if not self._channels:
            self._wanted.clear()


def _credentials(scope: Scope) -> Credentials:
    """Return what a caller is authenticated by; the same of all its connections, whose ports differ."""
    peer = scope.get("client")
    headers = tuple((name, value) for name, value in scope["headers"] if name in CREDENTIALS)
    return Credentials(None if peer is None else (peer[0], 0), headers)
