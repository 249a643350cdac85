"""What streams say, as the bytes of server-sent events."""

from typing import Any, Final, NamedTuple

import orjson
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event

from libs.tally.contest import Phase
from libs.tally.time import timestamp

RETRY: Final = format_sse_event(retry=2000)
"""How long a client waits, in ms, before it connects again."""
PING: Final = KEEPALIVE_COMMENT
GONE: Final = format_sse_event(event="gone", data_str="{}")


class PhaseState(NamedTuple):
    """What a `phase` event says, but for the time; start and end in microseconds since 1970."""

    phase: Phase
    start: int | None
    end: int | None
    final: bool
    sealed: bool
    hidden: bool


def phase(standing: PhaseState, now: int) -> bytes:
    times = {"start": timestamp(standing.start), "end": timestamp(standing.end), "server_time": timestamp(now)}
    return _event("phase", standing._asdict() | times)


def stale(since: int) -> bytes:
    """The views are away: what was said last was seen at `since`."""
    return _event("stale", {"since": timestamp(since)})


def figures(name: str, version: str, body: bytes) -> bytes:
    """An answer's body as it is."""
    return format_sse_event(event=name, data_str=body.decode(), id=version)


def _event(name: str, data: dict[str, Any]) -> bytes:
    return format_sse_event(event=name, data_str=orjson.dumps(data).decode())
