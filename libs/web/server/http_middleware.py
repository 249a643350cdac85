"""ASGI middleware around every app, at a few microseconds per request."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.requests import ClientDisconnect

from libs.tally.errors import NotFound, TallyError
from libs.telemetry.logs import REQUEST_ID
from libs.web.door import cors
from libs.web.door.rate_limits import RateLimits
from libs.web.door.request_ids import HEADER, request_id
from libs.web.door.request_parsing import declared_length
from libs.web.errors import STOPPING, RateLimited, Scope, error_response, problem_response
from libs.web.responses import NOT_SHARED
from libs.web.server.asgi_routes import AsgiRoute, HotRoute
from libs.web.server.direct_routes import DirectRoutes
from libs.web.server.metrics import SERVED, RequestTimes

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Refusal = Callable[[], TallyError | None]
"""Returns the error with which every request is refused now; None if requests are served."""
ALWAYS_SERVED: Final = (
    "/livez",
    "/readyz",
    "/metrics",
    "/operations",
    "/dashboard",
    "/docs",
    "/openapi.json",
    "/openapi",
)
"""Prefixes of the paths that stay available for diagnosis."""
FOR_OPERATORS: Final = ("/metrics", "/operations")
FOR_PLATFORMS: Final = "/operations/purchases"
"""Payment platforms send their reports here from outside."""


class HttpMiddleware:
    """Serves every path with and without a trailing slash, without redirects, and HEAD for every GET. A bug is a
    500 problem, never a stack trace; every response has a request id. GET responses without `Cache-Control` get
    `NOT_SHARED`.

    Routes are declared without the trailing slash, on apps with `redirect_slashes=False`. Hot routes are served
    here, without the app's middleware. While one of `refusals` returns an error, only `ALWAYS_SERVED` is served.
    With `limits`, requests are counted during authentication; those that end without a key are counted here, and
    refused before they are served if they have no credentials, else instead of their response. The bytes of
    bodies are counted, except those of hot routes, which are votes. Without `shows_operations`, routes for
    operators are 404. Pages of every origin may use the paths of `cors.py`.
    """

    def __init__(
        self,
        app: App,
        hot: Sequence[AsgiRoute] = (),
        refusals: Sequence[Refusal] = (),
        limits: RateLimits | None = None,
        shows_operations: bool = True,
    ) -> None:
        self.app = app
        self.hot = hot
        self.refusals = refusals
        self.limits = limits
        self.shows_operations = shows_operations
        self._times = RequestTimes()
        direct = [route for route in hot if isinstance(route, HotRoute)]
        self.direct = DirectRoutes(direct, refusals, limits, self._times)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path[-1:] == "/" and len(path) > 1 and not scope["raw_path"].upper().endswith(b"%2F"):
            scope["path"] = path.rstrip("/") or "/"
        name, started, is_replaced = request_id(scope), False, False
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        REQUEST_ID.set(name)  # each request runs in its own task
        began, limits = time.perf_counter(), self.limits
        open_methods, declared = cors.methods_for_all(scope["path"]), declared_length(scope["headers"])
        scope["state"]["rate_limits"] = limits
        scope["state"]["shows_operations"] = self.shows_operations

        async def send_with_headers(message: Any) -> None:
            nonlocal started, is_replaced
            if is_replaced:
                return
            if not started:
                try:
                    if limits is not None:
                        await limits.charge_unauthenticated(scope)
                except RateLimited as error:
                    if message["status"] < HTTPStatus.INTERNAL_SERVER_ERROR:  # a failure of ours is said as it is
                        await problem_response(error, scope)(scope, receive, send_with_headers)
                        is_replaced = True
                        return
                started = True
                self._times.observe(scope, message["status"], time.perf_counter() - began)
                headers = message["headers"] = [*message.get("headers", ()), (HEADER, name.encode())]
                if limits is not None:
                    headers += limits.headers(scope)
                if open_methods is not None:
                    headers += cors.HEADERS
                if scope["method"] == "GET" and all(header != b"cache-control" for header, _ in headers):
                    headers.append(NOT_SHARED)
            await send(message)

        async def receive_counted() -> Any:
            """Count the body at once by its Content-Length, else as it arrives."""
            nonlocal declared
            if limits is None or started:
                return await receive()
            if declared:
                size, declared = declared, 0
                await limits.charge_body(scope, size)
            message = await receive()
            if declared is None and (body := message.get("body")):
                await limits.charge_body(scope, len(body))
            return message

        task = asyncio.current_task()
        SERVED[task] = scope
        try:
            if limits is not None:
                await limits.charge_keyless(scope)
            question = None if open_methods is None else cors.preflight(scope, open_methods)
            app = question or self._app_for(scope)
            await app(scope, receive_counted if app is self.app else receive, send_with_headers)
        except ClientDisconnect:
            return  # the client has disconnected
        except asyncio.CancelledError:
            # The process stops, and the request outlasted its drain: without a response uvicorn would send a 500.
            if not started:
                await problem_response(STOPPING, scope)(scope, receive, send_with_headers)
            raise
        except Exception as error:
            response = error_response(error, scope)
            if not started:
                await response(scope, receive, send_with_headers)
        finally:
            SERVED.pop(task, None)

    def _app_for(self, scope: Scope) -> App:
        if not self.shows_operations and is_for_operators(scope["path"]):
            raise NotFound("There is nothing at this address.")
        for refusal in self.refusals:
            error = refusal()
            if error is not None and not scope["path"].startswith(ALWAYS_SERVED):
                raise error
        for route in self.hot:
            found = route.path_regex.match(scope["path"])
            if found is not None and scope["method"] in (route.methods or ()):
                scope["app"], scope["path_params"], scope["route"] = self.app, found.groupdict(), route
                return route.serve
        return self.app


def is_for_operators(path: str) -> bool:
    if path == FOR_PLATFORMS or path.startswith(f"{FOR_PLATFORMS}/"):
        return False
    return any(path == each or path.startswith(f"{each}/") for each in FOR_OPERATORS)


def _without_body(send: Send) -> Send:
    """Drop the body of a response: it is complete after its headers."""

    async def headers_only(message: Any) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return headers_only
