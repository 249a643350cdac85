"""Direct routes: the plain requests of a hot route, served by the HTTP protocol itself, without ASGI.

Through ASGI each request costs a task, a coroutine per layer and two messages for its response: a quarter of a
vote's CPU time, and half of that of reading counts. Plain is a request with a small body on an idle connection.
All others are served through ASGI by the same handler, with the same response.
"""

import asyncio
import re
import time
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextvars import Context, copy_context
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from libs.tally.errors import TallyError
from libs.telemetry.logs import REQUEST_ID
from libs.web.door.rate_limits import RateLimits
from libs.web.door.request_ids import HEADER, request_id
from libs.web.door.request_parsing import declared_length, too_large
from libs.web.errors import STOPPING, RateLimited, error_response, problem_response
from libs.web.responses import NOT_SHARED
from libs.web.server.client_transport import ClientTransport
from libs.web.server.hot_requests import Handler, Reply, reply_of
from libs.web.server.metrics import RequestTimes

_OF_A_BODY: Final = (b"content-length", b"transfer-encoding")
"""A request with neither of these headers has no body."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_/-]+")
"""A path that needs no decoding."""
MOST_PATHS: Final = 1_000
"""Paths that are cached: those of votes and counts name only their contest."""
MOST_PATH_BYTES: Final = 256
"""Size of a path that is cached."""

Headers = list[tuple[bytes, bytes]]


class DirectRoute(Protocol):
    """A hot route: `HotRoute`, which the projector must not import, as it serves HTTP without FastAPI."""

    path_regex: re.Pattern[str]
    handler: Handler

    @property
    def most_bytes(self) -> int: ...

    @property
    def methods(self) -> Collection[str] | None: ...


class DirectTarget(NamedTuple):
    """A route, and the parameters of its path."""

    route: DirectRoute
    path_params: Mapping[str, str]


class DirectRoutes:
    """Direct routes of a port, with the request ids, rate limits, refusals and metrics of `HttpMiddleware`."""

    def __init__(
        self,
        routes: Sequence[DirectRoute],
        refusals: Sequence[Callable[[], TallyError | None]],
        limits: RateLimits | None,
        times: RequestTimes,
    ) -> None:
        self._routes = routes
        self._paths: dict[bytes, Mapping[bytes, DirectTarget]] = {}
        self.refusals = refusals
        self.limits = limits
        self.times = times

    def find(self, protocol: HttpToolsProtocol) -> "DirectCycle | None":
        """Return the cycle of a request whose headers are complete, if a direct route may serve it."""
        raw_path, _, query = protocol.url.partition(b"?")
        targets = self._paths.get(raw_path)
        if targets is None:
            targets = self._targets(raw_path)
        method = protocol.parser.get_method()
        target = targets.get(method)
        if target is None or not _is_plain(protocol, target.route):
            return None
        scope = protocol.scope
        scope["method"], scope["query_string"] = method.decode("ascii"), query
        scope["path"], scope["raw_path"] = raw_path.rstrip(b"/").decode("ascii"), raw_path
        return DirectCycle(self, protocol, target)

    def _targets(self, raw_path: bytes) -> Mapping[bytes, DirectTarget]:
        """Return and cache the routes of a path by method: none if it must be decoded; slashes may follow."""
        path = raw_path.decode("latin-1").rstrip("/")
        targets: dict[bytes, DirectTarget] = {}
        for route in self._routes if _PLAIN.fullmatch(path) else ():
            if (match := route.path_regex.match(path)) is not None:
                target = DirectTarget(route, match.groupdict())
                targets = {method.encode(): target for method in route.methods or ()} | targets
        if len(raw_path) <= MOST_PATH_BYTES:
            if len(self._paths) >= MOST_PATHS:
                self._paths.clear()
            self._paths[raw_path] = targets
        return targets


class _NoEvent:
    """Stands for the event that ASGI apps wait for."""

    def set(self) -> None: ...


class DirectCycle(RequestResponseCycle):
    """A request, and its response, in place of uvicorn's for ASGI.

    Its handler runs at once, without a task, until it waits for a future, and goes on when that is done.
    """

    scope: Any
    _serving: Coroutine[Any, Any, Reply]
    _context: Context

    def __init__(
        self,
        routes: DirectRoutes,
        protocol: HttpToolsProtocol,
        target: DirectTarget,
    ) -> None:
        scope: Any = protocol.scope
        scope["route"], scope["path_params"] = target
        self.scope = scope
        self.route = target.route
        self.body = bytearray()
        self.message_event: Any = _NO_EVENT
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False
        self._routes = routes
        self._protocol = protocol
        self._began = 0.0
        self._awaited: asyncio.Future[Any] | None = None

    @property
    def received(self) -> bytes:
        return bytes(self.body)

    async def read(self, max_bytes: int) -> bytes:
        if len(self.body) > max_bytes:
            raise too_large(max_bytes)
        return bytes(self.body)

    def start(self) -> None:
        """Serve the complete request: a stopping server waits for it."""
        self._began = time.perf_counter()
        self._protocol.tasks.add(self)  # type: ignore[arg-type]
        self._serving, self._context = self._serve(), copy_context()
        self._step()

    def cancel(self, msg: object = None) -> None:
        """Cancel what the handler waits for: as part of uvicorn's tasks, which it cancels after a timeout."""
        if self._awaited is not None:
            self._awaited.cancel(msg)

    def _step(self, _: object = None) -> None:
        """Run the handler until it waits again, or has replied."""
        try:
            self._awaited = self._context.run(self._serving.send, None)
        except StopIteration as end:
            self._awaited = None
            self._respond(end.value)
            return
        if self._awaited is None:  # `asyncio.sleep(0)`
            self._protocol.loop.call_soon(self._step)
        else:
            self._awaited.add_done_callback(self._step)

    async def _serve(self) -> Reply:
        scope, limits = self.scope, self._routes.limits
        scope["state"]["rate_limits"] = limits
        REQUEST_ID.set(request_id(scope))
        try:
            if limits is not None:
                await limits.charge_keyless(scope)
            for refusal in self._routes.refusals:
                if (error := refusal()) is not None:
                    raise error
            reply = await self.route.handler(self)
        except asyncio.CancelledError:  # the process stops
            reply = reply_of(problem_response(STOPPING, scope))
        except Exception as error:
            reply = reply_of(error_response(error, scope))
        try:
            if limits is not None and scope["state"].get("key") is None:
                await limits.charge_unauthenticated(scope)
        except RateLimited as error:
            if reply.status < HTTPStatus.INTERNAL_SERVER_ERROR:  # a failure of ours is said as it is
                reply = reply_of(problem_response(error, scope))
        return reply

    def _respond(self, reply: Reply) -> None:
        protocol, scope = self._protocol, self.scope
        status, headers, body = reply
        self._routes.times.observe(scope, status, time.perf_counter() - self._began)
        self.response_complete = True
        protocol.tasks.discard(self)
        if self.disconnected:
            return
        parts = [STATUS_LINE[status]]
        for name, value in protocol.server_state.default_headers:
            parts += name, b": ", value, b"\r\n"
        for name, value in headers:
            parts += name, b": ", value, b"\r\n"
        if scope["method"] == "GET" and all(name != NOT_SHARED[0] for name, _ in headers):
            parts += NOT_SHARED[0], b": ", NOT_SHARED[1], b"\r\n"
        parts += HEADER, b": ", request_id(scope).encode(), b"\r\n"
        if self._routes.limits is not None:
            for name, value in self._routes.limits.headers(scope):
                parts += name, b": ", value, b"\r\n"
        parts += b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n", body
        assert isinstance(protocol.transport, ClientTransport)
        protocol.transport.write_whole(b"".join(parts))
        if not self.keep_alive:
            protocol.transport.close()
        protocol.on_response_complete()


_NO_EVENT: Final = _NoEvent()


def _is_plain(protocol: HttpToolsProtocol, route: DirectRoute) -> bool:
    """Return whether the request needs nothing that only ASGI provides, and its client reads its responses."""
    parser, earlier = protocol.parser, protocol.cycle
    size = declared_length(protocol.headers)
    if size is None and not any(name in _OF_A_BODY for name, _ in protocol.headers):
        size = 0
    return (
        size is not None
        and size <= route.most_bytes
        and (earlier is None or earlier.response_complete)
        and not protocol.flow.write_paused
        and not protocol.expect_100_continue
        and not protocol.root_path
        and parser.get_http_version() == "1.1"
        and parser.should_keep_alive()
        and not parser.should_upgrade()
    )
