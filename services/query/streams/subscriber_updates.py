"""Stream updates: each subscriber receives only the events that differ from those it received before."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

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
