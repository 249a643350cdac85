"""An HTTP/1.1 connection of uvicorn, with limits on the size and the duration of requests.

uvicorn's own protocol runs the requests, sends their responses and queues requests that are sent together. Here
are the limits, the end of a connection, and what uvicorn's parser accepts against RFC 9112.
"""

import asyncio
import logging
from http import HTTPStatus
from types import NoneType
from typing import Any, Final

import httptools
import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from libs.tally.errors import Overloaded, TallyError
from libs.telemetry.metrics import HTTP_REFUSALS
from libs.web.door import cors
from libs.web.errors import BadRequest, HeadersTooLarge, RequestTimeout, problem_response
from libs.web.server.client_transport import ClientTransport
from libs.web.server.connection_limits import ConnectionLimits
from libs.web.server.connection_phases import READING, TABLE, Action, ConnectionPhase, Event
from libs.web.server.direct_routes import DirectCycle, DirectRoutes

PIECE_BYTES: Final = 4096
"""Size of the pieces in which input is parsed, as the parser cannot stop between two requests. It bounds what a
connection does in one turn of the event loop."""
MOST_PIPELINED: Final = 4
"""Requests that may wait for the response to an earlier one. The connection ends before the next one, as clients
that pipeline must expect (RFC 9112, 9.3.2): a hundred requests in one packet would take the turns of others. With
16, votes' p99 beside 10,000 connections that send such packets was three times as long as without them."""
LINGER_S: Final = 10.0
LINGER_BYTES: Final = 16 << 20
"""Limits on reading and dropping the rest of a request that is already answered. Closing at once would reset the
connection of a client that is still sending, and it would miss the response."""
REFUSED: Final = {
    Overloaded: HTTP_REFUSALS.labels("connections"),
    HeadersTooLarge: HTTP_REFUSALS.labels("headers"),
    RequestTimeout: HTTP_REFUSALS.labels("deadline"),
}
EVICTED: Final = HTTP_REFUSALS.labels("evicted")
PIPELINED: Final = HTTP_REFUSALS.labels("pipelined")
logger = logging.getLogger(__name__)

FRAMING: Final = (b"content-length", b"transfer-encoding")


class HttpConfig(uvicorn.Config):
    """uvicorn configuration with a `ConnectionLimits`, and the routes to serve without ASGI."""

    def __init__(
        self, app: Any, limits: ConnectionLimits, direct: DirectRoutes | None = None, **options: Any
    ) -> None:
        super().__init__(
            app,
            http=HttpConnection,
            ws="none",
            loop="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(1, round(limits.settings.http_idle_timeout_s)),
            **options,
        )
        self.limits = limits
        self.direct = direct
        settings = limits.settings
        self.timeouts = {
            ConnectionPhase.IDLE: settings.http_idle_timeout_s,
            ConnectionPhase.HEADERS: settings.http_header_timeout_s,
            ConnectionPhase.BODY: settings.http_body_timeout_s,
            ConnectionPhase.REST: LINGER_S,
            ConnectionPhase.END: LINGER_S,
        }
        """Seconds that a client may stay in a phase; without limit in others."""


class HttpConnection(HttpToolsProtocol):
    """Reads requests by the phases of `connection_phases.TABLE`, and refuses malformed, large and slow ones.

    Clients can read a refusal before the connection closes. Input behind a request without a response is held, not
    parsed: at most one packet.
    """

    def __init__(
        self,
        config: HttpConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.limits = config.limits
        self._direct = config.direct
        self._timeouts = config.timeouts
        self.deadline: float | None = None
        self.url = b""
        self.phase = ConnectionPhase.IDLE
        self._paused_with: float | None = None
        """Seconds that the client has left when reading resumes; None while not paused."""
        self._since_body = 0
        """Bytes received since the last body byte: headers, trailers and chunk framing."""
        self._droppable = 0
        """Bytes that may still be dropped."""
        self._held = b""
        """Input behind a request without a response."""
        self._hosts = 0
        self._codings: list[bytes] = []
        self._previous: Any = None
        """The request before the one that is being read."""
        self._has_answered = False
        """Whether a response was completed while the last piece was parsed."""
        self.transport: ClientTransport

    # callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(ClientTransport(self, transport))
        if self.limits.admit(self, self.client):
            self.deadline = self.limits.clock() + self.limits.settings.http_header_timeout_s
            self.limits.waits(self)
        elif self.limits.refuse(self):
            self._refuse(Overloaded("There are too many connections.", retry_after_s=1))
        else:
            REFUSED[Overloaded].inc()
            self._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.leave(self)
        self.phase, self.deadline, self._held = ConnectionPhase.CLOSED, None, b""
        super().connection_lost(exc)
        self.transport.release()

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        most = self.limits.settings.http_max_header_bytes
        at = 0
        while at < len(data):
            if self.phase not in READING:
                self._drop(len(data) - at)
                return
            if self._held or self._owes_earlier():
                self._hold(data[at:])
                return
            piece = data[at : at + max(1, min(PIECE_BYTES, most - self._since_body))]
            at += len(piece)
            self._since_body += len(piece)
            if self.phase is ConnectionPhase.REST:
                self._drop(len(piece))
            self._has_answered = False
            self._parse(piece)
            if self._since_body >= most:
                self._refuse(HeadersTooLarge("The headers are too large."))
            if self._has_answered and at < len(data) and self.phase in READING:
                # the other connections' turn
                self._hold(data[at:])
                self.loop.call_soon(self._read_held)
                return
        if self.phase is ConnectionPhase.BODY and self.deadline is not None:
            self.limits.waits(self)

    def _parse(self, piece: bytes) -> None:
        try:
            self.parser.feed_data(piece)
        except httptools.HttpParserUpgrade as upgrade:
            self._ignore_upgrade(piece[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if not isinstance(error.__context__, NoneType | httptools.HttpParserInvalidURLError | UnicodeError):
                logger.error("a request could not be read", exc_info=error.__context__)
            self._refuse(BadRequest("The request is not valid HTTP/1.1."))

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Read the body of a request with `Upgrade`; it is the connection's last one.

        The parser takes the body for another protocol, and would then read requests in it. So another parser reads
        the same body, after a head that this connection ignores in the phase BODY.
        """
        if self.phase is ConnectionPhase.BODY:
            framing = (b"%s: %s\r\n" % (name, value) for name, value in self.headers if name in FRAMING)
            self.parser = httptools.HttpRequestParser(self)
            self._parse(b"POST / HTTP/1.1\r\n%s\r\n" % b"".join(framing))
            self._parse(rest)

    def _owes_earlier(self) -> bool:
        """Return whether a request before the one that is being read has no complete response."""
        if self.pipeline:
            return True
        if self.cycle is None or self.phase in (ConnectionPhase.BODY, ConnectionPhase.REST):
            return False
        return not self.cycle.response_complete

    def _hold(self, data: bytes) -> None:
        self._held += data
        self.transport.hold()

    def _read_held(self) -> None:
        if self._held and not self._owes_earlier():
            data, self._held = self._held, b""
            self.transport.read_on()
            self.data_received(data)

    # callbacks of the parser

    def on_message_begin(self) -> None:
        if self.phase in (ConnectionPhase.IDLE, ConnectionPhase.ANSWER):
            super().on_message_begin()
            self._hosts, self._codings = 0, []
            self._step(Event.BEGIN)

    def on_url(self, url: bytes) -> None:
        if self.phase is ConnectionPhase.HEADERS:
            self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.phase is not ConnectionPhase.HEADERS:
            return  # trailers are ignored
        name, value = name.lower(), value.rstrip(b" \t")
        if name == b"host":
            self._hosts += 1
        elif name == b"transfer-encoding":
            self._codings.append(value)
        elif name == b"expect" and value.lower() == b"100-continue":
            self.expect_100_continue = True
        self.headers.append((name, value))
        if len(self.headers) > self.limits.settings.http_max_headers:
            self._refuse(HeadersTooLarge("There are too many headers."))

    def on_headers_complete(self) -> None:
        if self.phase is not ConnectionPhase.HEADERS:
            return
        if (fault := self._fault()) is not None:
            self._refuse(BadRequest(fault))
            return
        if len(self.pipeline) >= MOST_PIPELINED:
            PIPELINED.inc()
            self._refuse(BadRequest("Read responses before you send more requests."))
            return
        self._previous = self.cycle
        direct = None if self._direct is None else self._direct.find(self)
        if direct is None:
            super().on_headers_complete()
            self.cycle.keep_alive &= not self.parser.should_upgrade()
        else:
            self.cycle = direct
        self._since_body = 0
        self._step(Event.HEADERS)

    def _fault(self) -> str | None:
        """Return why the parsed headers are refused, which the parser accepts."""
        version = self.parser.get_http_version()
        if version not in ("1.1", "1.0"):
            return "Send HTTP/1.1 or HTTP/1.0."
        if self._hosts != 1 and (self._hosts or version == "1.1"):
            return "Send one Host header."
        if self._codings and (version == "1.0" or [coding.lower() for coding in self._codings] != [b"chunked"]):
            return "Send Transfer-Encoding: chunked, with HTTP/1.1, or none."
        if self.parser.should_upgrade() and self.parser.get_method() == b"CONNECT":
            return "This is no proxy."
        if not self.url.startswith(b"/") or b"#" in self.url:
            return "Send a path that begins with a slash, without a fragment."
        return None

    def on_body(self, body: bytes) -> None:
        if self.phase not in (ConnectionPhase.BODY, ConnectionPhase.REST):
            return
        self._since_body = 0
        if self.phase is ConnectionPhase.BODY and self.deadline is not None:
            settings = self.limits.settings
            latest = self.limits.clock() + settings.http_body_timeout_s
            self.deadline = min(latest, self.deadline + len(body) / settings.http_body_min_rate)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.phase not in (ConnectionPhase.BODY, ConnectionPhase.REST) or self.parser.should_upgrade():
            return
        self._since_body = 0
        cycle, is_answered = self.cycle, self.phase is ConnectionPhase.REST
        cycle.keep_alive &= self.parser.should_keep_alive()  # also by its trailers
        self._step(Event.COMPLETE if cycle.keep_alive else Event.FINAL)
        if is_answered:
            return
        if not isinstance(cycle, DirectCycle):
            super().on_message_complete()
        else:
            cycle.start()

    def on_response_complete(self) -> None:
        self.transport.has_written, self._has_answered = False, True
        if isinstance(self.cycle, DirectCycle) and not self.pipeline:
            # without uvicorn's timer for each idle connection: that is what `deadline` is for
            self.server_state.total_requests += 1
            self.flow.resume_reading()
        else:
            super().on_response_complete()
        if self.transport.is_closing():
            return
        if self.phase is ConnectionPhase.HEADERS and self.cycle.response_complete:
            self._step(Event.NEXT)
        elif self.cycle.response_complete:
            self._step(Event.ANSWERED)
        elif self.phase is ConnectionPhase.BODY and not self.pipeline:
            self._step(Event.NEXT)
        self._read_held()

    # called by `ConnectionLimits` and `ClientTransport`

    def expire(self) -> None:
        if self.phase is ConnectionPhase.HEADERS:
            self._refuse(RequestTimeout("The headers did not arrive in time."))
        elif self.phase is ConnectionPhase.BODY:
            self._refuse(RequestTimeout("The body did not arrive in time."))
        else:
            self._step(Event.LATE)

    def evict(self) -> None:
        EVICTED.inc()
        self._abort()

    def close_requested(self) -> None:
        self._step(Event.CLOSE)

    def pause(self) -> None:
        """Stop the deadline while the server itself pauses reading."""
        if self.deadline is not None:
            self._paused_with, self.deadline = self.deadline - self.limits.clock(), None
            self.limits.works(self)

    def resume(self) -> None:
        if self._paused_with is not None:
            self.deadline, self._paused_with = self.limits.clock() + self._paused_with, None
            self.limits.waits(self)

    # the steps of the table

    def _step(self, event: Event) -> None:
        """Enter the phase of `TABLE`, and act; `_refuse` writes the response of a refusal before."""
        phase, action = TABLE[self.phase][event]
        if phase is None:
            return
        self.phase, self.deadline, self._paused_with = phase, None, None
        self._droppable = LINGER_BYTES
        timeout_s = self._timeouts.get(phase)
        if timeout_s is None:
            self.limits.works(self)
        elif phase not in (ConnectionPhase.HEADERS, ConnectionPhase.BODY) or not self._owes_earlier():
            self.deadline = self.limits.clock() + timeout_s
            if phase is not ConnectionPhase.HEADERS:
                self.limits.waits(self)
        if action is not Action.NOTHING:
            self._act(action)

    def _act(self, action: Action) -> None:
        self._held = b""
        if action is Action.STOP:
            self.cycle.keep_alive = False
        elif action is Action.CLOSE:
            self.transport.close_now()
        elif action is Action.ABORT:
            self.transport.abort()
        else:
            self.transport.finish()

    def _refuse(self, error: TallyError) -> None:
        """Respond instead of the app, as far as the table allows."""
        event = Event.FAULT
        if self._owes_earlier():
            event = Event.FAULT_BEHIND
        elif self.phase is ConnectionPhase.BODY and self.transport.has_written:
            event = Event.FAULT_AMID
        step = TABLE[self.phase][event]
        if step.phase is None:
            return
        if step.action is Action.STOP and self.phase is ConnectionPhase.BODY:
            self.pipeline.popleft()
            self.cycle = self._previous
        if (refused := REFUSED.get(type(error))) is not None:
            refused.inc()
        if step.action is Action.REFUSE:
            if self.phase is ConnectionPhase.BODY:
                self.cycle.disconnected = True
                self.cycle.message_event.set()
            path = _path(self.url)
            response = problem_response(error, {"path": path})
            response.raw_headers += cors.headers_of(path)
            self.transport.write(_serialized(response))
        self._step(event)

    def _drop(self, size: int) -> None:
        self._droppable -= size
        if self._droppable < 0:
            self._abort()

    def _abort(self) -> None:
        self.phase, self.deadline, self._held = ConnectionPhase.CLOSED, None, b""
        self.transport.abort()


def _path(url: bytes) -> str:
    """Return the path received so far, at most 1024 characters."""
    return url.partition(b"?")[0].decode("latin-1")[:1024] or "/"


def _serialized(response: Response) -> bytes:
    status = HTTPStatus(response.status_code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])
