"""Routes in the OpenAPI document that are served as plain ASGI: 45 µs per request instead of 330."""

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from libs.web.server.direct_routes import DirectCycle

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]


class AsgiRoute(APIRoute):
    """`documented` provides the OpenAPI entry (signature and docstring) and is never called; `serve` responds.

    Add it to an app's `routes` for the document; `HttpMiddleware` serves it without calling the app.
    """

    def __init__(self, path: str, documented: Callable[..., Any], serve: Serve, **options: Any) -> None:
        super().__init__(path, documented, **options)
        self.serve: Serve = serve

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in (self.methods or ()):
            raise HTTPException(HTTPStatus.METHOD_NOT_ALLOWED)
        await self.serve(scope, receive, send)


class PlainRoute(AsgiRoute):
    """Responds with what its `handler` returns, which is its documentation, too."""

    def __init__(self, path: str, handler: Callable[[Request], Awaitable[Response]], **options: Any) -> None:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await (await handler(Request(scope, receive)))(scope, receive, send)

        super().__init__(path, handler, serve, **options)


class StreamRoute(AsgiRoute):
    """Streams until the client disconnects, or `end` is called when the process stops."""

    def __init__(
        self, path: str, documented: Callable[..., Any], serve: Serve, end: Callable[[], None], **options: Any
    ) -> None:
        super().__init__(path, documented, serve, **options)
        self.end = end


Start = Callable[[DirectCycle], bool]
"""Starts to serve a complete request: responds now or later, or raises an error to respond with.

Returns False if the request must be served through ASGI, before any effect but the caller's authentication. So it
does for a caller without a known key: only ASGI counts and authenticates those.
"""
_PLAIN: Final = re.compile(rb"[A-Za-z0-9_-]+")
"""A path parameter that needs no decoding."""
MOST_PATHS: Final = 1_000
"""Paths that a route caches, of all hot routes: those of votes and counts name only their contest."""
MOST_PATH_BYTES: Final = 256
"""Size of a path that is cached."""


class DirectRoute(AsgiRoute):
    """A hot route that `start` serves directly, up to `most_bytes` of body, and `serve` through ASGI."""

    def __init__(
        self,
        path: str,
        documented: Callable[..., Any],
        serve: Serve,
        start: Start,
        most_bytes: int,
        **options: Any,
    ) -> None:
        super().__init__(path, documented, serve, **options)
        self.start = start
        self.most_bytes: Final = most_bytes
        self.direct_methods: Final = frozenset(method.encode() for method in self.methods or ())
        self._segments: Final = path.encode().split(b"/")
        self._parsed: dict[bytes, Mapping[str, str] | None] = {}

    def match_path(self, path: bytes) -> Mapping[str, str] | None:
        """Return the path parameters, or None if `path` is not plainly this route's; a slash may follow."""
        try:
            return self._parsed[path]
        except KeyError:
            params = self._parse_path(path)
        if len(path) <= MOST_PATH_BYTES:
            if len(self._parsed) >= MOST_PATHS:
                self._parsed.clear()
            self._parsed[path] = params
        return params

    def _parse_path(self, path: bytes) -> dict[str, str] | None:
        segments = path.rstrip(b"/").split(b"/")
        if len(segments) != len(self._segments):
            return None
        params = {}
        for own, segment in zip(self._segments, segments, strict=True):
            if own.startswith(b"{") and _PLAIN.fullmatch(segment):
                params[own[1:-1].decode()] = segment.decode()
            elif own != segment:
                return None
        return params
