"""All streams of a process: one loop looks for what is new, and tells it.

Everything goes at the loop's pace: news are told ten times a second at most, and looking and telling take half a
core at most, however many listen.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from libs.contracts.topics import Topic
from libs.metrics.table import STREAM_MESSAGES, STREAMS_OPEN
from libs.tally.contest import MILLION
from libs.tally.errors import TallyError, ViewsUnavailable
from libs.web.auth import AddressRefused, Authenticator, header
from libs.web.errors import Unauthorized
from services.query.public_results import ANY_ORIGIN
from services.query.responses import Header
from services.query.snapshot import Snapshot
from services.query.snapshot_cache import SnapshotCache, now
from services.query.streams import events
from services.query.streams.change_detector import ChangeDetector
from services.query.streams.channel import Channel
from services.query.streams.renderers import View
from services.query.streams.subscriber import Credentials, Subscriber
from services.query.streams.updates import ENDED, Seen

logger = logging.getLogger(__name__)

LOOKS_APART_S: Final = 0.05
NEWS_APART_S: Final = 0.1
CHECKED_EVERY_US: Final = 2 * MILLION
"""How often keys are looked at again."""
CREDENTIALS: Final = (b"authorization", b"cookie", b"x-forwarded-for", b"forwarded")
HEADERS: Final[list[Header]] = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
PUBLIC_HEADERS: Final = [*HEADERS, ANY_ORIGIN]

OPEN_TO_KEYS, OPEN_TO_ALL = STREAMS_OPEN.labels("counts"), STREAMS_OPEN.labels("results")

Name = tuple[str, str, View]
"""Of a channel: account, contest, and what is seen of it."""


class StreamHub:
    """Who listens to what. `running` is entered for as long as they are served; `end` lets all go."""

    def __init__(
        self, auth: Authenticator, snapshots: SnapshotCache, changes: ChangeDetector, catalogue: Topic
    ) -> None:
        self._auth = auth
        self._snapshots = snapshots
        self._changes = changes
        self._catalogue = catalogue
        self._channels: dict[Name, Channel] = {}
        self._wanted = asyncio.Event()
        self._has_ended = False
        self._checked_at = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Beside the caller's own work."""
        running = asyncio.create_task(self._run())
        try:
            yield
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running

    def end(self) -> None:
        """Every stream ends; one that comes later does so at once."""
        self._has_ended = True
        for channel in self._channels.values():
            channel.end()

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, snapshot: Snapshot, view: View, is_keyed: bool
    ) -> None:
        """A stream that begins with `snapshot`, until the client goes or the stream ends.

        Where it `is_keyed`, the key must hold for as long as that.
        """
        moment = now()
        told = view(snapshot.at(moment), moment)
        message = told.since(Seen(None, header(scope["headers"], b"last-event-id")))
        assert message is not None
        await send(
            {"type": "http.response.start", "status": 200, "headers": HEADERS if is_keyed else PUBLIC_HEADERS}
        )
        await send(message | {"body": events.RETRY + message["body"]})
        STREAM_MESSAGES.inc()
        listener = Subscriber(send, told.heard, _credentials(scope) if is_keyed else None)
        channel = self._join(listener, (snapshot.account, snapshot.contest.key, view))
        try:
            with (OPEN_TO_KEYS if is_keyed else OPEN_TO_ALL).track_inprogress():
                while (await receive())["type"] != "http.disconnect":
                    pass
        finally:
            channel.listeners.discard(listener)
            listener.close()

    def _join(self, listener: Subscriber, name: Name) -> Channel:
        channel = self._channels.get(name)
        if channel is None:
            channel = self._channels[name] = Channel(self._snapshots, *name)
        channel.join(listener)
        self._wanted.set()
        if self._has_ended:
            listener.tell(ENDED)
        return channel

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wanted.wait()
            began, used, spoke = loop.time(), time.thread_time(), False
            try:
                spoke = await self._round()
            except Exception:
                logger.exception("a round of the streams failed")
            whole = max(NEWS_APART_S if spoke else LOOKS_APART_S, 2 * (time.thread_time() - used))
            await asyncio.sleep(max(0.0, began + whole - loop.time()))

    async def _round(self) -> bool:
        """Whether anybody was told anything."""
        moment = now()
        channels = due = tuple(self._channels.values())
        try:
            moved = await self._changes.moved(
                self._catalogue.partition_of(channel.account) for channel in channels
            )
        except ViewsUnavailable:
            for channel in channels:
                channel.lose_sight()
        else:
            due = tuple(channel for channel in channels if moved or channel.is_due(moment))
            await asyncio.gather(*(channel.look() for channel in due))
        spoke = [await channel.tell() for channel in due]
        for channel in channels:
            await channel.ping()
        if moment >= self._checked_at + CHECKED_EVERY_US:
            self._checked_at = moment
            await self._end_revoked()
        self._drop_what_is_over()
        return any(spoke)

    async def _end_revoked(self) -> None:
        """Who holds a key that is not known any more, or a log-in that has run out, hears nothing more."""
        listening = [listener for channel in self._channels.values() for listener in channel.listeners]
        given = [*{listener.credentials for listener in listening if listener.credentials}]
        # all at once: who holds a key that is not known is looked for, and those looks are one then
        holds = await asyncio.gather(*map(self._lets_in, given))
        revoked = {each for each, lets_in in zip(given, holds, strict=True) if not lets_in}
        for listener in listening:
            if listener.credentials in revoked:
                listener.tell(ENDED)

    async def _lets_in(self, credentials: Credentials) -> bool:
        try:
            asked = {"method": "GET", "client": credentials.peer, "headers": credentials.headers}
            await self._auth.authenticate(asked)
        except (Unauthorized, AddressRefused):
            return False
        except TallyError:
            return True  # nobody can tell
        return True

    def _drop_what_is_over(self) -> None:
        for name, channel in tuple(self._channels.items()):
            if channel.is_over:
                channel.end()
                del self._channels[name]
        if not self._channels:
            self._wanted.clear()


def _credentials(scope: Scope) -> Credentials:
    peer = scope.get("client")
    headers = tuple((name, value) for name, value in scope["headers"] if name in CREDENTIALS)
    return Credentials(None if peer is None else (peer[0], peer[1]), headers)
