"""HTTP/1.1 protocol for uvicorn that limits the size and the duration of requests."""

import asyncio
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from libs.metrics.definitions import HTTP_REFUSALS
from libs.tally.errors import Overloaded, TallyError
from libs.web import cors
from libs.web.errors import BadRequest, HeadersTooLarge, RequestTimeout, problem_response
from libs.web.server.client_transport import ClientTransport
from libs.web.server.connection_limits import ConnectionLimits
from libs.web.server.direct_routes import DirectCycle, DirectRoutes

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


class Phase(Enum):
    """The next expected step on a connection."""

    REQUEST = "the first byte of a request"
    HEADERS = "the rest of its headers"
    BODY = "its body"
    ANSWER = "its response"
    REST = "the rest of the body of an answered request"
    END = "the client's end of stream; input is dropped"


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


class HttpConnection(HttpToolsProtocol):
    """Refuses requests that are too large or too slow; clients can read the response before it closes."""

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
        self.deadline: float | None = None
        self.url = b""
        self._phase = Phase.REQUEST
        self._paused_with: float | None = None
        """Seconds that the client has left when reading resumes; None while not paused."""
        self._since_body = 0
        """Bytes received since the last body byte: headers, trailers and chunk framing."""
        self._droppable = 0
        """Bytes that may still be dropped."""
        self._lingering: ClientTransport

    # callbacks of the transport

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._lingering = ClientTransport(self, transport)
        super().connection_made(self._lingering)
        if self.limits.admit(self, self.client):
            self._wait(self.limits.settings.http_header_timeout_s)
        elif self.limits.refuse(self):
            self._refuse(Overloaded("There are too many connections.", retry_after_s=1))
        else:
            REFUSED[Overloaded].inc()
            self._lingering.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.limits.leave(self)
        self._phase, self.deadline = Phase.END, None
        super().connection_lost(exc)
        self._lingering.release()

    def data_received(self, data: bytes) -> None:
        most = self.limits.settings.http_max_header_bytes
        while data and self._phase is not Phase.END:
            piece = data if self._phase in (Phase.BODY, Phase.REST) else data[: most - self._since_body]
            data = data[len(piece) :]
            self._since_body += len(piece)
            if self._phase is Phase.REST:
                self._drop(len(piece))
            super().data_received(piece)
            if self._since_body >= most:
                self._refuse(HeadersTooLarge("The headers are too large."))
        if data:
            self._drop(len(data))
        if self._phase is Phase.BODY and self.deadline is not None:
            self.limits.waits(self)

    # callbacks of the parser

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is Phase.END:
            return
        self._phase = Phase.HEADERS
        if self.cycle is not None:
            self.deadline = self.limits.clock() + self.limits.settings.http_header_timeout_s

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is not Phase.HEADERS:
            return  # trailers are ignored
        super().on_header(name, value)
        if len(self.headers) > self.limits.settings.http_max_headers:
            self._refuse(HeadersTooLarge("There are too many headers."))

    def on_headers_complete(self) -> None:
        if self._phase is Phase.END:
            return
        self._phase, self._since_body = Phase.BODY, 0
        self.deadline = self.limits.clock() + self.limits.settings.http_body_timeout_s
        direct = None if self._direct is None else self._direct.find(self)
        if direct is None:
            super().on_headers_complete()
        else:
            self.cycle = direct

    def on_body(self, body: bytes) -> None:
        if self._phase is Phase.END:
            return
        self._since_body = 0
        if self._phase is Phase.BODY and self.deadline is not None:
            settings = self.limits.settings
            latest = self.limits.clock() + settings.http_body_timeout_s
            self.deadline = min(latest, self.deadline + len(body) / settings.http_body_min_rate)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._phase is Phase.END:
            return
        self._since_body = 0
        if self._phase is Phase.REST:
            super().on_message_complete()
            self._wait(self.limits.settings.http_idle_timeout_s)
            return
        self._phase, self.deadline = Phase.ANSWER, None
        self.limits.works(self)
        cycle = self.cycle
        if not isinstance(cycle, DirectCycle):
            super().on_message_complete()
        elif self._direct is None or not self._direct.start(cycle):
            self._serve_by_asgi(cycle)

    def _serve_by_asgi(self, declined: DirectCycle) -> None:
        """Serve a complete request that a direct route declined."""
        declined.release()
        self.cycle = None  # type: ignore[assignment]  # as before the first request
        super().on_headers_complete()
        self.cycle.keep_alive &= declined.keep_alive
        super().on_body(bytes(declined.body))
        super().on_message_complete()

    def on_response_complete(self) -> None:
        if isinstance(self.cycle, DirectCycle) and not self.pipeline:
            # without uvicorn's timer for each idle connection: that is what `deadline` is for
            self.server_state.total_requests += 1
            self.flow.resume_reading()
        else:
            super().on_response_complete()
        self._lingering.has_written = False
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        if self._phase is Phase.ANSWER:
            self._wait(self.limits.settings.http_idle_timeout_s)
        elif self._phase is Phase.BODY:
            self._linger(Phase.REST)

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest(msg))

    # called by `ConnectionLimits` and `ClientTransport`

    def expire(self) -> None:
        if self._phase is Phase.HEADERS:
            self._refuse(RequestTimeout("The headers did not arrive in time."))
        elif self._phase is Phase.BODY:
            self._refuse(RequestTimeout("The body did not arrive in time."))
        else:
            self._lingering.abort()

    def evict(self) -> None:
        EVICTED.inc()
        self._lingering.abort()

    def pause(self) -> None:
        """Stop the deadline while the server itself pauses reading."""
        if self.deadline is not None:
            self._paused_with, self.deadline = self.deadline - self.limits.clock(), None
            self.limits.works(self)

    def resume(self) -> None:
        if self._paused_with is not None:
            self.deadline, self._paused_with = self.limits.clock() + self._paused_with, None
            self.limits.waits(self)

    def may_close(self) -> bool:
        """Return whether the request is read completely; otherwise close once it is, or after a timeout."""
        if self._phase not in (Phase.BODY, Phase.REST):
            return True
        self._linger(Phase.END)
        return False

    def _wait(self, timeout_s: float) -> None:
        self._phase, self._paused_with = Phase.REQUEST, None
        self.deadline = self.limits.clock() + timeout_s
        self.limits.waits(self)

    def _refuse(self, error: TallyError) -> None:
        """Respond instead of the app, unless it has started to, or an earlier request is unanswered."""
        if self._phase is Phase.END:
            return
        if (refused := REFUSED.get(type(error))) is not None:
            refused.inc()
        cycle = self.cycle
        is_own = self._phase is Phase.BODY and not self._lingering.has_written and not self.pipeline
        if cycle is not None and not cycle.response_complete:
            if not is_own:
                self._lingering.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        path = _path(self.url)
        response = problem_response(error, {"path": path})
        response.raw_headers += cors.headers_of(path)
        self.transport.write(_serialized(response))
        self._linger(Phase.END)

    def _linger(self, phase: Phase) -> None:
        self._phase, self._droppable, self._paused_with = phase, LINGER_BYTES, None
        self.deadline = self.limits.clock() + LINGER_S
        self.limits.waits(self)
        if phase is Phase.END:
            self._lingering.end()

    def _drop(self, size: int) -> None:
        self._droppable -= size
        if self._droppable < 0:
            self._lingering.abort()


def _path(url: bytes) -> str:
    """Return the path received so far, at most 1024 characters."""
    return url.partition(b"?")[0].decode("latin-1")[:1024] or "/"


def _serialized(response: Response) -> bytes:
    status = HTTPStatus(response.status_code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])
