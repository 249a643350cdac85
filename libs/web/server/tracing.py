"""OpenTelemetry spans for sampled requests."""

import re
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.trace import StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from libs.telemetry.tracing import Tracing
from libs.web.door.client_address import Proxies
from libs.web.door.request_ids import request_id

PUBLIC: Final = re.compile(r"{(\w+_key|source)(?::\w+)?}")
"""Path parameters that name records. Ids of votes, voters and API keys stay out of spans."""


def _path(route: str, values: Mapping[str, Any]) -> str:
    """Return the path with the keys of its records: `/contests/abc/votes/{vote_id}`."""
    return PUBLIC.sub(lambda found: str(values.get(found[1], found[0])), route)


class Traced:
    """Wraps a `HttpMiddleware` in spans, named by the route: paths contain keys.

    Only a trusted proxy's traceparent decides on sampling: others could have all their requests traced.
    """

    def __init__(self, app: ASGIApp, tracing: Tracing, proxies: Proxies) -> None:
        self.app = app
        self.tracing = tracing
        self.proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        parent = None
        if scope["type"] == "http":
            headers = scope["headers"] if self.proxies.trusts(scope.get("client")) else ()
            parent = self.tracing.sampled(headers)
        if parent is None:
            await self.app(scope, receive, send)
            return
        status = 0

        async def send_and_record(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with self.tracing.request(parent) as span:
            await self.app(scope, receive, send_and_record)
            route = getattr(scope.get("route"), "path_format", None)
            span.update_name(f"{scope['method']} {route}" if route else scope["method"])
            span.set_attribute("http.request.method", scope["method"])
            span.set_attribute("http.response.status_code", status)
            span.set_attribute("tally.request_id", request_id(scope))
            span.set_attribute("url.scheme", scope.get("scheme", "http"))
            if server := scope.get("server"):
                span.set_attribute("server.address", str(server[0]))
                if server[1] is not None:
                    span.set_attribute("server.port", server[1])
            if route:
                span.set_attribute("http.route", route)
                span.set_attribute("url.path", _path(route, scope.get("path_params", {})))
            if status >= 500:
                span.set_attribute("error.type", str(status))
                span.set_status(StatusCode.ERROR)
