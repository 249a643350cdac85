"""`/metrics` in Prometheus's text format or OpenMetrics, request durations, and long turns of the event loop."""

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

from prometheus_client import Histogram
from prometheus_client.exposition import choose_encoder
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from libs.concurrency.loop_watch import watch_turns
from libs.telemetry.metrics import HTTP_REQUEST_SECONDS, LOOP_STALL, REGISTRY
from libs.web.errors import METHODS, Scope
from libs.web.responses import OncePerSecond

OPEN_METRICS: Final = "application/openmetrics-text"
FORMATS: Final = {is_open: choose_encoder(OPEN_METRICS if is_open else "") for is_open in (True, False)}
"""OpenMetrics and Prometheus's text format, each in one version: a body is cached for each."""

MetricRefresher = Callable[[], Awaitable[None]]
"""Updates metrics that are measured on demand. It raises nothing, and takes at most two seconds."""


def metrics_route(metric_refreshers: Iterable[MetricRefresher] = ()) -> Route:
    """Return the route `/metrics`. It needs no key, as Prometheus sends none, and has only sums over all contests.

    Metrics are refreshed at most once a second.
    """
    refreshers = list(metric_refreshers)

    async def measure(is_open: bool) -> bytes:
        await asyncio.gather(*(refresh() for refresh in refreshers))
        return await asyncio.to_thread(FORMATS[is_open][0], REGISTRY)

    latest = {is_open: OncePerSecond(partial(measure, is_open)) for is_open in FORMATS}

    async def metrics(request: Request) -> Response:
        accepted = ",".join(request.headers.getlist("accept")).split(",")
        is_open = any(media_type.partition(";")[0].strip() == OPEN_METRICS for media_type in accepted)
        body = await latest[is_open].get()
        return Response(body, headers={"Cache-Control": "no-store"}, media_type=FORMATS[is_open][1])

    return Route("/metrics", metrics)


class RequestTimes:
    """Observes a request's duration until its response starts, so that streams do not distort it."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], Histogram] = {}

    def observe(self, scope: Scope, status: int, seconds: float) -> None:
        method: str = scope["method"]
        key = method, _template(scope.get("route")), status
        histogram = self._known.get(key)
        if histogram is None:
            known = method if method in METHODS else "other"
            histogram = self._known[key] = HTTP_REQUEST_SECONDS.labels(known, key[1], status)
        histogram.observe(seconds)


def _template(route: Any) -> str:
    """Return the route's template; never the path, which callers choose and which names contests."""
    found: str = getattr(route, "path_format", "none")
    return found


SERVED: Final[dict["asyncio.Task[Any] | None", Scope]] = {}
"""The requests that are served, by their tasks."""
STALLED_S: Final = 60.0
"""Time for which a long turn of the event loop is shown."""
MOST_STALLS: Final = 1_000
LOGGED_S: Final = 1.0
"""CPU time of a turn that is logged."""

logger = logging.getLogger(__name__)


class LoopStalls:
    """The long turns of the last minute by the route of their requests."""

    def __init__(self) -> None:
        self._stalls: deque[tuple[float, str, float]] = deque(maxlen=MOST_STALLS)
        self._routes = set[str]()
        self._show("none")

    def add(self, seconds: float, route: str) -> None:
        route = route or "none"
        self._stalls.append((time.monotonic(), route, seconds))
        self._show(route)
        if seconds > LOGGED_S:
            logger.warning("one turn took %.1f s, and all else waited: route %s", seconds, route)

    def _show(self, route: str) -> None:
        if route not in self._routes:
            self._routes.add(route)
            LOOP_STALL.labels(route).set_function(partial(self._longest, route))

    def _longest(self, route: str) -> float:
        since = time.monotonic() - STALLED_S
        recent = (seconds for at, of, seconds in [*self._stalls] if of == route and at > since)
        return max(recent, default=0.0)


@asynccontextmanager
async def measured_loop() -> AsyncIterator[None]:
    """Measure the turns of the process's event loop."""
    async with watch_turns(LoopStalls().add, _route_of):
        yield


def _route_of(task: "asyncio.Task[Any] | None") -> str:
    scope = SERVED.get(task)
    return "none" if scope is None else _template(scope.get("route"))
