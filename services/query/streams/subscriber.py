"""One subscriber of a stream: sends without delay, or the latest update once a slow client is ready."""

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from starlette.types import Send

from services.query.streams import sse_events as events

Message = dict[str, Any]
"""An ASGI message."""


class Seen(NamedTuple):
    """The state that a subscriber has received: phase state or end of the stream, and the versions of counts and
    details."""

    status: object
    version: str | None
    details: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """The events for the state `seen`; the stream ends after the `last` update.

    Each combination of events is encoded once for all subscribers.
    """

    seen: Seen
    status: bytes
    counts: bytes = b""
    details: bytes = b""
    last: bool = False
    _messages: dict[tuple[bool, bool, bool], Message] = field(default_factory=dict)

    def delta(self, before: Seen) -> Message | None:
        """Return the message for a subscriber that has received `before`, None if nothing differs."""
        version = self.seen.version
        differs = (
            before.status != self.seen.status,
            before.details != self.seen.details,
            version is not None and before.version != version,
        )
        if not any(differs):
            return None
        message = self._messages.get(differs)
        if message is None:
            body = self.status * differs[0] + self.details * differs[1] + self.counts * differs[2]
            message = self._messages[differs] = {
                "type": "http.response.body",
                "body": body,
                "more_body": not self.last,
            }
        return message


NOTHING: Final = Update(Seen(None, None), b"")
GONE: Final = Update(Seen("gone", None), events.GONE, last=True)
"""The contest was deleted."""
ENDED: Final = Update(Seen("ended", None), b"", last=True)
"""The stream ends; the client reconnects."""
STALE: Final = "stale"
PING: Final[Message] = {"type": "http.response.body", "body": events.PING, "more_body": True}


def stale(since: int) -> Update:
    """Return the update for views unavailable since then (microseconds since 1970)."""
    return Update(Seen(STALE, None), events.stale(since))


class Credentials(NamedTuple):
    """The credentials of a subscriber: its peer and headers."""

    peer: tuple[str, int] | None
    headers: tuple[tuple[bytes, bytes], ...]


class Subscriber:
    """Sends updates at once if the connection's buffer takes them. While the client is slow, a task waits to send
    the latest update.
    """

    __slots__ = ("_latest", "_seen", "_send", "_writing", "credentials")

    def __init__(self, send: Send, seen: Seen, credentials: Credentials | None = None) -> None:
        self._send = send
        self._seen = seen
        self._latest: Update | None = None
        self._writing: asyncio.Task[None] | None = None
        self.credentials = credentials

    def publish(self, update: Update) -> bool:
        """Send or queue an update; return whether there was anything to send. Nothing follows the last update."""
        if self._latest is not None and self._latest.last:
            return False
        self._latest = update
        message = None if self._writing else update.delta(self._seen)
        if message is None:
            return False
        if self._send_now(message):
            self._seen = update.seen
        else:
            self._writing = asyncio.create_task(self._write(update))
        return True

    def ping(self) -> bool:
        """Send a ping unless a message is waiting; return whether it was sent."""
        return not self._writing and self._send_now(PING)

    def close(self) -> None:
        if self._writing:
            self._writing.cancel()

    def _send_now(self, message: Message) -> bool:
        """Send the message if that needs no waiting; nothing is written otherwise."""
        sending = self._send(message).__await__()
        try:
            next(sending)
        except StopIteration:
            return True
        sending.close()
        return False

    async def _write(self, update: Update) -> None:
        while (message := update.delta(self._seen)) is not None:
            await self._send(message)
            self._seen = update.seen
            update = self._latest or update
        self._writing = None
