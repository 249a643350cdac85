"""Server-sent events of the streams, as bytes."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson
from fastapi.sse import format_sse_event

from libs.tally.contest import Phase
from libs.tally.time_conversion import timestamp
from services.query.streams.counting_lag import CountingLag

RETRY: Final = b"retry: 2000\n"
"""Begins a stream's first event: sets the client's reconnection time, in ms."""
PING: Final = b": ping\n"
"""A comment. No empty line ends either: some clients dispatch an event without data at each one."""
GONE: Final = format_sse_event(event="gone", data_str="{}")


class PhaseState(NamedTuple):
    """The data of a `phase` event without the server time; times in microseconds since 1970.

    `updated` is the last change to the contest's records.
    `lag` is None for readers from whom the counts are hidden: it would show them how many votes arrive.
    """

    phase: Phase
    start: int | None
    end: int | None
    final: bool
    sealed: bool
    visibility: str
    result_release: str
    hidden: bool
    is_public: bool
    is_counting: bool
    held_final: bool
    show: Mapping[str, Any]
    lag: CountingLag | None
    updated: int


def phase(state: PhaseState, now: int) -> bytes:
    moments = {"start": state.start, "end": state.end, "updated": state.updated, "server_time": now}
    times = {name: timestamp(moment) for name, moment in moments.items()}
    lag = None if state.lag is None else {"records": state.lag.records, "seconds": state.lag.seconds}
    return _event("phase", state._asdict() | {"lag": lag} | times)


def stale(since: int) -> bytes:
    """Build the event for unavailable views; the data sent last was read at `since`."""
    return _event("stale", {"since": timestamp(since)})


def counts(name: str, version: str, body: bytes) -> bytes:
    """Build an event with the body of a plain read."""
    return format_sse_event(event=name, data_str=body.decode(), id=version)


def details(body: bytes) -> bytes:
    return format_sse_event(event="details", data_str=body.decode())


def _event(name: str, data: dict[str, Any]) -> bytes:
    return format_sse_event(event=name, data_str=orjson.dumps(data).decode())
