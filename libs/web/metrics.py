"""`/metrics` in Prometheus's text format or as OpenMetrics, and how long requests take."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from fastapi import APIRouter
from prometheus_client import Histogram
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.metrics.table import HTTP_REQUEST_SECONDS, REGISTRY
from libs.web.cached_value import OncePerSecond
from libs.web.errors import METHODS, Scope

MetricRefresher = Callable[[], Awaitable[None]]
"""Brings up to date what is not counted as it happens. It raises nothing, and takes two seconds at most."""


def metrics_route(metric_refreshers: Iterable[MetricRefresher] = ()) -> Route:
    """Without a key, as Prometheus asks: sums over all contests, for whoever may reach the address.

    They are measured once a second at most.
    """
    looking = list(metric_refreshers)
    latest: dict[str, OncePerSecond[bytes]] = {}

    async def metrics(request: Request) -> Response:
        encode, media_type = choose_encoder(",".join(request.headers.getlist("accept")))

        async def measure() -> bytes:
            await asyncio.gather(*(look() for look in looking))
            return await asyncio.to_thread(encode, REGISTRY)

        body = await latest.setdefault(media_type, OncePerSecond(measure)).get()
        return Response(body, headers={"Cache-Control": "no-store"}, media_type=media_type)

    return Route("/metrics", metrics)


def metrics_router(metric_refreshers: Iterable[MetricRefresher] = ()) -> APIRouter:
    """`metrics_route`, described."""
    router, text = APIRouter(tags=["operations"]), {"schema": {"type": "string"}}
    told = {"text/plain": text, "application/openmetrics-text": text}
    router.add_api_route(
        "/metrics",
        metrics_route(metric_refreshers).endpoint,
        name="read_metrics",
        description="What was measured since the process began, in Prometheus's text format or as OpenMetrics.",
        response_class=Response,
        responses={200: {"description": "All metrics.", "content": told}},
    )
    return router


class RequestTimes:
    """Counts a request when its answer begins: how long a stream goes on says nothing."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        method: str = scope["method"]
        key = method, _template(scope.get("route")), status
        its = self._known.get(key)
        if its is None:
            known = method if method in METHODS else "other"
            its = self._known[key] = HTTP_REQUEST_SECONDS.labels(known, key[1], status)
        its.observe(seconds)


def _template(route: Any) -> str:
    """Never the path itself: callers choose that, and it names contests."""
    found: str = getattr(route, "path_format", "none")
    return found
