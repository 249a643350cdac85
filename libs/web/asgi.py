"""What every HTTP process puts around its app: plain ASGI, a few microseconds a request."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from starlette.requests import ClientDisconnect

from libs.tally.errors import NotFound, TallyError
from libs.telemetry.logs import REQUEST_ID
from libs.web.asgi_routes import AsgiRoute
from libs.web.errors import Scope, bug_response, is_for_the_caller, log_bug, problem_response
from libs.web.metrics import RequestTimes
from libs.web.rate_limits import RateLimits
from libs.web.request_ids import HEADER, request_id

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

Refusal = Callable[[], TallyError | None]
"""Why nothing may be served now, for a client; None while it may."""
ALWAYS_SERVED: Final = ("/livez", "/readyz", "/metrics", "/operations", "/dashboard", "/docs", "/openapi.json")
"""Paths that say what is wrong, or begin the paths that do."""
FOR_OPERATORS: Final = ("/metrics", "/operations")
FOR_PLATFORMS: Final = "/operations/purchases"
"""Payment platforms report from outside."""
NOT_SHARED: Final = (b"cache-control", b"private, no-cache")


class Front:
    """Answers every path with and without a trailing slash, directly, and HEAD wherever there is a GET; a bug is a
    500 problem, never a stack trace; every answer names its request. What says nothing of caches is kept by no
    shared one: those hold back what was asked for with a key, but not what was asked for with a session's cookie.

    Routes are declared without the trailing slash, on apps made with `redirect_slashes=False`. Hot routes are
    answered here, without the layers that the app puts around its own. While one of `refusals` gives a reason,
    only `ALWAYS_SERVED` is served. With `limits`, requests without a key are counted here, those with one where
    that is looked up. Without `shows_operations`, what is for operators is not there.
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

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        path: str = scope["path"]
        if path[-1:] == "/" and len(path) > 1 and not scope["raw_path"].upper().endswith(b"%2F"):
            scope["path"] = path.rstrip("/") or "/"
        name, started = request_id(scope), False
        if scope["method"] == "HEAD":
            scope, send = {**scope, "method": "GET"}, _without_body(send)
        REQUEST_ID.set(name)  # a server runs each request in a task of its own
        began, limits = time.perf_counter(), self.limits
        scope["state"]["rate_limits"] = limits
        scope["state"]["shows_operations"] = self.shows_operations

        async def watched(message: Any) -> None:
            nonlocal started
            if not started:
                started = True
                self._times.observe(scope, message["status"], time.perf_counter() - began)
                headers = message["headers"] = [*message.get("headers", ()), (HEADER, name.encode())]
                if limits is not None:
                    headers += limits.headers(scope)
                if scope["method"] == "GET" and all(header != b"cache-control" for header, _ in headers):
                    headers.append(NOT_SHARED)
            await send(message)

        try:
            if limits is not None:
                await limits.charge_keyless(scope)
            await self._app_for(scope)(scope, receive, watched)
        except ClientDisconnect:
            return  # nobody is there to be answered
        except Exception as error:
            if is_for_the_caller(error):
                response = problem_response(error, scope)
            else:
                log_bug(error, scope)
                response = bug_response(scope)
            if not started:
                await response(scope, receive, watched)

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
                scope["path_params"], scope["route"] = found.groupdict(), route
                return route.serve
        return self.app


def nothing() -> TallyError | None:
    """The refusal of what may always be served."""
    return None


def is_for_operators(path: str) -> bool:
    if path == FOR_PLATFORMS or path.startswith(f"{FOR_PLATFORMS}/"):
        return False
    return any(path == each or path.startswith(f"{each}/") for each in FOR_OPERATORS)


def _without_body(send: Send) -> Send:
    """Ends the answer behind its headers; an app that streams is told that nobody listens any more."""

    async def headers_only(message: Any) -> None:
        if message["type"] == "http.response.start":
            await send(message)
            await send({"type": "http.response.body", "body": b""})

    return headers_only
