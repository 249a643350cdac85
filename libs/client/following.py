"""Following a contest's results, without I/O: from the bytes of one stream after another to updates."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final
from urllib.parse import quote

import httpx

from .calls import path_of
from .outcomes import ApiError, problem_of
from .service_clock import ServiceClock

SILENCE_S: Final = 22.0
"""Time without a byte after which a stream is dead: pings come every 15 s."""
STEADY_S: Final = 5.0
"""A stream that lasted so long was no failure."""
FIRST_S: Final = 1.0
LONGEST_S: Final = 15.0
"""Bounds of the pause before a stream is opened again."""
MOST_BYTES: Final = 16 * 1024 * 1024
"""Size of one line of a stream."""
TIMEOUT: Final = httpx.Timeout(10.0, read=SILENCE_S)
RESULTS: Final = ("counts", "results")
"""Events with counts: of callers with a key, and of all."""


@dataclass(frozen=True, slots=True)
class Update:
    """The newest state of a contest."""

    phase: dict[str, Any] | None = None
    """The last `phase` event: `phase`, `start`, `end`, `final`, `hidden`, ..."""
    results: dict[str, Any] | None = None
    """The last counts; None before the first, and while they are hidden."""
    is_stale: bool = False
    """True while the numbers may be old: the service says so, or the stream is lost."""


@dataclass(slots=True)
class Follower:
    """Follows one contest; a client opens the streams, and opens the next after `pause`."""

    contest: str
    receipt: str | None
    is_keyed: bool
    time: ServiceClock
    clock: Callable[[], float]
    random: Callable[[], float]
    is_over: bool = False
    """True after `gone`: the contest was deleted, or is no longer published."""
    _latest: Update = field(default_factory=Update)
    _version: str | None = None
    _rest: bytes = b""
    _event: dict[str, str] = field(default_factory=dict)
    _failures: int = 0
    _retry_s: float = FIRST_S
    _opened_at: float = 0.0
    _least_s: float = 0.0

    @property
    def path(self) -> str:
        if self.is_keyed:
            return path_of(self.contest, "vote_updates", "stream")
        return f"/public/contests/{quote(self.contest, safe='')}/results/stream"

    def options(self) -> dict[str, Any]:
        """Return the request options of the next stream, which begins now."""
        self._rest, self._event, self._least_s, self._opened_at = b"", {}, 0.0, self.clock()
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
        if self._version is not None:
            headers["Last-Event-ID"] = self._version
        params = {} if self.receipt is None else {"receipt": self.receipt}
        return {"params": params, "headers": headers, "timeout": TIMEOUT}

    def accepts(self, reply: httpx.Response) -> bool:
        """Return whether the answer is a stream. Raises `ApiError` if asking again does not help."""
        problem = problem_of(reply)
        if problem is None:
            return str(reply.headers.get("content-type")).startswith("text/event-stream")
        if problem.code and not problem.is_transient:
            raise ApiError(problem)
        self._least_s = problem.retry_after_s
        return False

    def feed(self, data: bytes) -> Iterator[Update]:
        """Yield the updates that some bytes of the stream complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > MOST_BYTES:
            raise httpx.RemoteProtocolError("A line of the stream is too long.")
        for line in lines:
            name, _, value = line.removesuffix(b"\r").decode(errors="replace").partition(":")
            if line.strip():
                self._event[name] = value.removeprefix(" ")
            else:
                event, self._event = self._event, {}
                yield from self._received(event)

    def lost(self) -> Iterator[Update]:
        """Yield that the numbers may be old, once; the stream has ended, however."""
        self._failures = 0 if self.clock() - self._opened_at >= STEADY_S else self._failures + 1
        if not self._latest.is_stale:
            self._latest = replace(self._latest, is_stale=True)
            yield self._latest

    def pause(self) -> float:
        """Return the seconds to wait before the next stream: more each time, and others for each client."""
        most = min(self._retry_s * 2.0 ** min(self._failures, 30), LONGEST_S)
        return self._least_s + most * (0.5 + self.random() / 2)

    def _received(self, event: dict[str, str]) -> Iterator[Update]:
        name = event.get("event", "")
        if event.get("retry", "").isdecimal():
            self._retry_s = min(int(event["retry"]) / 1000, LONGEST_S)
        if name == "gone":
            self.is_over = True
            return
        if name not in ("phase", "stale", *RESULTS):
            return
        data = _parsed(event)
        if name == "phase":
            self.time.set(data["server_time"])
            self._latest = replace(self._latest, phase=data, is_stale=False)
            if data["hidden"]:  # the counts must be sent again once they may be seen
                self._version, self._latest = None, replace(self._latest, results=None)
        elif name in RESULTS:
            self._version = event.get("id", self._version)
            self._latest = replace(self._latest, results=data, is_stale=False)
        else:
            self._latest = replace(self._latest, is_stale=True)
        yield self._latest


def _parsed(event: dict[str, str]) -> dict[str, Any]:
    """Return an event's data. Raises `httpx.RemoteProtocolError`, upon which the stream is opened again."""
    try:
        data: dict[str, Any] = json.loads(event["data"])
    except (KeyError, ValueError) as error:
        raise httpx.RemoteProtocolError("The stream has an event without data.") from error
    return data
