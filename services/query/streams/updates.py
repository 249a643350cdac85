"""What a stream has come to say: a listener is owed what differs from what it heard before."""

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from services.query.streams import events

Message = dict[str, Any]
"""Of ASGI."""


class Seen(NamedTuple):
    """How the contest stands, or why nothing follows; and the version of its counts, None for none."""

    status: object
    version: str | None


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What is to be `heard`, as events. After the `last` there is nothing more.

    What many are owed is encoded once.
    """

    heard: Seen
    status: bytes
    figures: bytes = b""
    last: bool = False
    _messages: dict[tuple[bool, bool], Message] = field(default_factory=dict)

    def since(self, before: Seen) -> Message | None:
        """What to send to who heard `before`; None for nothing."""
        version = self.heard.version
        owed = before.status != self.heard.status, version is not None and before.version != version
        if not any(owed):
            return None
        message = self._messages.get(owed)
        if message is None:
            body = self.status * owed[0] + self.figures * owed[1]
            message = self._messages[owed] = {
                "type": "http.response.body",
                "body": body,
                "more_body": not self.last,
            }
        return message


NOTHING: Final = Update(Seen(None, None), b"")
GONE: Final = Update(Seen("gone", None), events.GONE, last=True)
"""There is no such contest any more."""
ENDED: Final = Update(Seen("ended", None), b"", last=True)
"""The client connects again, and hears what there is to say."""
STALE: Final = "stale"
PING: Final[Message] = {"type": "http.response.body", "body": events.PING, "more_body": True}


def stale(since: int) -> Update:
    """The views are away since then (microseconds since 1970); once they are back, all is told anew."""
    return Update(Seen(STALE, None), events.stale(since))
