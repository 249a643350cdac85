"""OpenTelemetry spans for sampled requests."""

from typing import Any

from opentelemetry.trace import StatusCode
from starlette.types import ASGIApp, Receive, Scope, Send

from libs.telemetry.tracing import Tracing
from libs.web.client_address import Proxies
from libs.web.request_ids import request_id


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
            if route:
                span.set_attribute("http.route", route)
            if status >= 500:
                span.set_attribute("error.type", str(status))
                span.set_status(StatusCode.ERROR)
