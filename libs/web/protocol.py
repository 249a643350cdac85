"""HTTP/1.1 over one connection, as uvicorn speaks it, within bounds of size and time."""

import asyncio
from enum import Enum
from http import HTTPStatus
from typing import Any, Final

import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from libs.metrics.table import HTTP_REFUSALS
from libs.tally.errors import Overloaded, TallyError
from libs.web.connection_limits import ConnectionLimits
from libs.web.errors import BadRequest, HeadersTooLarge, RequestTimeout, problem_response

LINGER_S: Final = 10.0
LINGER_BYTES: Final = 16 << 20
"""Bounds of what is still read, and dropped, of a request that has its answer: a client that is still sending
would find the connection reset instead of the answer."""
CONTINUE: Final = b"HTTP/1.1 100 "
REFUSED: Final = {
    Overloaded: HTTP_REFUSALS.labels("connections"),
    HeadersTooLarge: HTTP_REFUSALS.labels("headers"),
    RequestTimeout: HTTP_REFUSALS.labels("deadline"),
}
EVICTED: Final = HTTP_REFUSALS.labels("evicted")


class Phase(Enum):
    """What comes next on a connection."""

    REQUEST = "the first byte of a request"
    HEADERS = "the rest of its headers"
    BODY = "its body"
    ANSWER = "its answer"
    REST = "the rest of a body whose request was answered"
    END = "the client's end: what comes in is dropped"


class BoundedConfig(uvicorn.Config):
    """The settings of a server with a `ConnectionLimits`."""

    def __init__(self, app: Any, door: ConnectionLimits, **options: Any) -> None:
        super().__init__(
            app,
            http=BoundedProtocol,
            ws="none",
            loop="none",
            lifespan="off",
            access_log=False,
            log_config=None,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=max(1, round(door.settings.http_idle_timeout_s)),
            **options,
        )
        self.door = door


class BoundedProtocol(HttpToolsProtocol):
    """Refuses what is too large or too slow, and lets clients read why before it closes."""

    def __init__(
        self,
        config: BoundedConfig,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self.door = config.door
        self.deadline: float | None = None
        self.url = b""
        self._phase = Phase.REQUEST
        self._held: float | None = None
        """Time that is left to the client once reading goes on."""
        self._unbodied = 0
        """Bytes that came in since the last of a body: headers, trailers, and what stands between chunks."""
        self._left = 0
        """Bytes that are still dropped."""
        self._outer: LingeringTransport

    # what the transport says

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._outer = LingeringTransport(self, transport)
        super().connection_made(self._outer)
        if self.door.admit(self, self.client):
            self._wait(self.door.settings.http_header_timeout_s)
        elif self.door.refuse(self):
            self._refuse(Overloaded("There are too many connections.", retry_after_s=1))
        else:
            REFUSED[Overloaded].inc()
            self._outer.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.door.leave(self)
        self._phase, self.deadline = Phase.END, None
        super().connection_lost(exc)
        self._outer.release()

    def data_received(self, data: bytes) -> None:
        most = self.door.settings.http_max_header_bytes
        while data and self._phase is not Phase.END:
            piece = data if self._phase in (Phase.BODY, Phase.REST) else data[: most - self._unbodied]
            data = data[len(piece) :]
            self._unbodied += len(piece)
            if self._phase is Phase.REST:
                self._drop(len(piece))
            super().data_received(piece)
            if self._unbodied >= most:
                self._refuse(HeadersTooLarge("The headers are too large."))
        if data:
            self._drop(len(data))

    # what the parser says

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._phase is Phase.END:
            return
        self._phase = Phase.HEADERS
        if self.cycle is not None:
            self.deadline = self.door.clock() + self.door.settings.http_header_timeout_s

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._phase is not Phase.HEADERS:
            return  # a trailer: nothing here has a use for one
        super().on_header(name, value)
        if len(self.headers) > self.door.settings.http_max_headers:
            self._refuse(HeadersTooLarge("There are too many headers."))

    def on_headers_complete(self) -> None:
        if self._phase is Phase.END:
            return
        self._phase, self._unbodied = Phase.BODY, 0
        self.door.waits(self)
        self.deadline = self.door.clock() + self.door.settings.http_body_timeout_s
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        if self._phase is Phase.END:
            return
        self._unbodied = 0
        if self._phase is Phase.BODY and self.deadline is not None:
            settings = self.door.settings
            latest = self.door.clock() + settings.http_body_timeout_s
            self.deadline = min(latest, self.deadline + len(body) / settings.http_body_min_rate)
            self.door.waits(self)
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._phase is Phase.END:
            return
        super().on_message_complete()
        self._unbodied = 0
        if self._phase is Phase.REST:
            self._wait(self.door.settings.http_idle_timeout_s)
        else:
            self._phase, self.deadline = Phase.ANSWER, None
            self.door.works(self)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._outer.has_written = False
        if self.transport.is_closing() or not self.cycle.response_complete:
            return
        if self._phase is Phase.ANSWER:
            self._wait(self.door.settings.http_idle_timeout_s)
        elif self._phase is Phase.BODY:
            self._linger(Phase.REST)

    def send_400_response(self, msg: str) -> None:
        self._refuse(BadRequest(msg))

    # what the door and the transport ask for

    def expire(self) -> None:
        if self._phase is Phase.HEADERS:
            self._refuse(RequestTimeout("The headers did not come in in time."))
        elif self._phase is Phase.BODY:
            self._refuse(RequestTimeout("The body did not come in in time."))
        else:
            self._outer.abort()

    def evict(self) -> None:
        EVICTED.inc()
        self._outer.abort()

    def hold(self) -> None:
        """Nothing is read for now: that is no delay of the client's."""
        if self.deadline is not None:
            self._held, self.deadline = self.deadline - self.door.clock(), None
            self.door.works(self)

    def go_on(self) -> None:
        if self._held is not None:
            self.deadline, self._held = self.door.clock() + self._held, None
            self.door.waits(self)

    def may_close(self) -> bool:
        """Whether nothing more comes in; else it is closed when that has come, or is late."""
        if self._phase not in (Phase.BODY, Phase.REST):
            return True
        self._linger(Phase.END)
        return False

    def _wait(self, timeout_s: float) -> None:
        self._phase, self._held = Phase.REQUEST, None
        self.deadline = self.door.clock() + timeout_s
        self.door.waits(self)

    def _refuse(self, error: TallyError) -> None:
        """Answer in place of the app, unless that has begun to, or still has an earlier request to answer."""
        if self._phase is Phase.END:
            return
        if (refused := REFUSED.get(type(error))) is not None:
            refused.inc()
        cycle = self.cycle
        is_own = self._phase is Phase.BODY and not self._outer.has_written and not self.pipeline
        if cycle is not None and not cycle.response_complete:
            if not is_own:
                self._outer.abort()
                return
            cycle.disconnected = True
            cycle.message_event.set()
        self.transport.write(_serialized(problem_response(error, {"path": _path(self.url)})))
        self._linger(Phase.END)

    def _linger(self, phase: Phase) -> None:
        self._phase, self._left, self._held = phase, LINGER_BYTES, None
        self.deadline = self.door.clock() + LINGER_S
        self.door.waits(self)
        if phase is Phase.END:
            self._outer.end()

    def _drop(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            self._outer.abort()


class LingeringTransport(asyncio.Transport):
    """A connection that closes in two steps: first what is sent ends, then, when the client is done, the rest."""

    def __init__(self, protocol: BoundedProtocol, inner: asyncio.Transport) -> None:
        super().__init__()
        self.has_written = False
        """Of an answer."""
        self._protocol: BoundedProtocol | None = protocol
        self._inner = inner
        self._is_ending = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_ending:
            self.has_written = self.has_written or bytes(data[: len(CONTINUE)]) != CONTINUE
            self._inner.write(data)

    def end(self) -> None:
        """Nothing more is sent."""
        self._is_ending = True
        self._inner.resume_reading()
        self._inner.write_eof()

    def close(self) -> None:
        if self._protocol is None or self._protocol.may_close():
            self._inner.close()

    def release(self) -> None:
        """The connection is lost. No cycle of references stays: the collector seldom runs."""
        self._protocol = None

    def abort(self) -> None:
        self._is_ending = True
        self._inner.abort()

    def is_closing(self) -> bool:
        return self._is_ending or self._inner.is_closing()

    def pause_reading(self) -> None:
        if self._protocol is not None:
            self._protocol.hold()
        self._inner.pause_reading()

    def resume_reading(self) -> None:
        if self._protocol is not None:
            self._protocol.go_on()
        self._inner.resume_reading()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._inner.get_extra_info(name, default)


def _path(url: bytes) -> str:
    """As far as it has come in."""
    return url.partition(b"?")[0].decode("latin-1")[:1024] or "/"


def _serialized(response: Response) -> bytes:
    status = HTTPStatus(response.status_code)
    lines = [f"HTTP/1.1 {status.value} {status.phrase}".encode()]
    lines += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*lines, b"connection: close", b"", bytes(response.body)])
