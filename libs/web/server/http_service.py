"""HTTP servers: one service per process, or several in one app."""

import asyncio
import gc
import resource
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn
import uvloop
from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig
from pydantic import BaseModel, Field
from starlette.responses import Response
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from libs.concurrency.forced_exit import ForcedExit, exit_if_hanging
from libs.contracts.catalogue_events import ApiKey
from libs.telemetry.logs import configure_logs
from libs.telemetry.tracing import Tracing, open_tracing
from libs.web.documents.docs_pages import page_routes
from libs.web.documents.openapi_document import DocumentedApp
from libs.web.door.rate_limits import RateLimits, SharedCounts
from libs.web.errors import handle_errors
from libs.web.server.asgi_routes import AsgiRoute, PlainRoute, StreamRoute
from libs.web.server.background_server import listen, serve_in_background
from libs.web.server.connection_limits import ConnectionLimits
from libs.web.server.health import Check, endpoints
from libs.web.server.http_connection import HttpConfig
from libs.web.server.http_middleware import HttpMiddleware, Refusal
from libs.web.server.metrics import MetricRefresher, measured_loop, metrics_route
from libs.web.server.tracing import Traced
from libs.web.settings import CLOSE_S, DRAIN_S, HttpSettings


class Liveness(BaseModel):
    status: str = Field(description="Always `alive`.")


class Readiness(BaseModel):
    ready: bool = Field(description="Whether all required dependencies are available.")
    dependencies: dict[str, str] = Field(
        description="`ready` or `unavailable`, by dependency; some are optional. Listed on the operators' port "
        "only. The process's log and `tally doctor` give the reasons."
    )
    recorded_on: str | None = Field(
        None,
        description="What a recorded vote rests on: disks, or the memory of replicas. On the operators' port.",
    )


def health_router(
    checks: Mapping[str, Check], optional_checks: Mapping[str, Check], recorded_on: str | None
) -> APIRouter:
    """Return `health_routes` with their OpenAPI descriptions; anybody may send many, so they are plain ASGI."""
    livez, readyz = endpoints(checks, optional_checks, recorded_on)
    away, tags = "A required dependency is unavailable.", ["operations"]
    readiness = {
        200: {"description": "Ready.", "model": Readiness},
        503: {"description": away, "model": Readiness},
    }
    router = APIRouter()
    router.routes += (
        PlainRoute("/livez", livez, responses={200: {"description": "Alive.", "model": Liveness}}, tags=tags),
        PlainRoute("/readyz", readyz, responses=readiness, tags=tags),
    )
    return router


def metrics_router(metric_refreshers: Iterable[MetricRefresher] = ()) -> APIRouter:
    """Return `metrics_route` with its OpenAPI description."""
    router, text = APIRouter(tags=["operations"]), {"schema": {"type": "string"}}
    content = {"text/plain": text, "application/openmetrics-text": text}
    router.add_api_route(
        "/metrics",
        metrics_route(metric_refreshers).endpoint,
        name="read_metrics",
        description="Metrics since the process started, in Prometheus's text format or OpenMetrics.",
        response_class=Response,
        responses={200: {"description": "All metrics.", "content": content}},
    )
    return router


STUCK_S = 30
"""Seconds after which a client that reads nothing of its response is disconnected."""

Complete = Callable[[ApiKey, str, list[dict[str, Any]]], Awaitable[None]]
"""Adds fields that the catalogue's views do not hold to records of one parent: (key, origin, records)."""

ByVotes = Callable[[ApiKey, str], Awaitable[Sequence[Any]]]
"""Returns the participants of a contest by votes, as `Ranked`: (key, contest)."""


@dataclass(frozen=True, slots=True)
class HttpModule:
    """Routes, checks and metrics of one service.

    `hot` routes are matched before all others. `checks` are named after the dependency; `optional_checks` are for
    dependencies that most requests do not need. `metric_refreshers` run before each response of `/metrics`.
    `enrichers` complete the records of another service, by resource name. While `refusal` returns an error, the
    process refuses all requests with it. `rate_counts` are the rate-limit counters shared by all processes.
    `recorded_on` is what an acknowledged record rests on, as a sentence.
    """

    hot: Sequence[AsgiRoute] = ()
    routers: Sequence[APIRouter] = ()
    routes: Sequence[BaseRoute] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    metric_refreshers: Sequence[MetricRefresher] = ()
    optional_checks: Mapping[str, Check] = field(default_factory=dict)
    enrichers: Mapping[str, Complete] = field(default_factory=dict)
    by_votes: ByVotes | None = None
    refusal: Refusal | None = None
    rate_counts: SharedCounts | None = None
    recorded_on: str | None = None


def build_app(title: str, http_modules: Sequence[HttpModule], **options: Any) -> FastAPI:
    """Build one app of several modules, with health routes for all checks, to serve in an `HttpMiddleware`."""
    # the framework's own spans and logs would contain query strings and error texts; `Traced` creates ours
    silent: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    app = DocumentedApp(title=title, redirect_slashes=False, telemetry=silent, **options)
    handle_errors(app)
    checks, optional_checks = dict[str, Check](), dict[str, Check]()
    app.state.refusals = [*dict.fromkeys(each.refusal for each in http_modules if each.refusal is not None)]
    app.state.rate_counts = next((each.rate_counts for each in http_modules if each.rate_counts is not None), None)
    for http_module in http_modules:
        app.router.routes.extend(http_module.hot)
        checks |= http_module.checks
        optional_checks |= http_module.optional_checks
    for http_module in http_modules:
        for router in http_module.routers:
            _add(router, app)
        app.router.routes.extend(http_module.routes)
    recorded_on = next((each.recorded_on for each in http_modules if each.recorded_on is not None), None)
    _add(health_router(checks, optional_checks, recorded_on), app)
    refreshers = (refresh for http_module in http_modules for refresh in http_module.metric_refreshers)
    _add(metrics_router(refreshers), app)
    app.router.routes.extend(page_routes(title))
    return app


def _add(router: APIRouter, app: FastAPI) -> None:
    """Add the router's own routes; `include_router` would build each again, at the first request."""
    app.router.routes.extend(router.routes)


async def serve(app: FastAPI, settings: HttpSettings, tracing: Tracing | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then finish requests in flight. The caller closes the app's dependencies."""
    tune_garbage_collector()
    raise_open_file_limit()
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again after draining, when it has already been handled
        signal.signal(number, signal.SIG_IGN)
    server = HttpServer(app, settings, tracing)
    async with AsyncExitStack() as stack:
        if settings.operations_port:
            host = settings.operations_host or settings.host
            await stack.enter_async_context(
                serve_in_background(server.operations, settings, host, settings.operations_port)
            )
        shared = [listen(settings.host, settings.port, reuse_port=True)] if settings.reuse_port else None
        await server.serve(shared)


class HttpServer(uvicorn.Server):
    """After a signal, serves on for the drain delay, not ready; then ends streams and requests in flight.

    Disconnects clients that read nothing for `STUCK_S`, where the operating system supports it.
    """

    def __init__(self, app: FastAPI, settings: HttpSettings, tracing: Tracing | None = None) -> None:
        self._app = app
        self._drain_delay_s = settings.drain_delay_s
        self._closes_at: float | None = None
        hot = [route for route in app.routes if isinstance(route, AsgiRoute)]
        self._streams = [route for route in hot if isinstance(route, StreamRoute)]
        proxies = settings.proxies()
        limits = RateLimits(settings, proxies, getattr(app.state, "rate_counts", None))

        def front(*, shows_operations: bool) -> HttpMiddleware:
            return HttpMiddleware(app, hot, getattr(app.state, "refusals", ()), limits, shows_operations)

        def traced(front: HttpMiddleware) -> ASGIApp:
            return front if tracing is None else Traced(front, tracing, proxies)

        self.operations = traced(front(shows_operations=True))
        """The app including the routes for operators."""
        self.connection_limits = ConnectionLimits(settings, proxies)
        public = front(shows_operations=settings.shows_operations)
        super().__init__(
            HttpConfig(
                traced(public),
                self.connection_limits,
                public.direct if tracing is None else None,
                host=settings.host,
                port=settings.port,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )

    async def on_tick(self, counter: int) -> bool:
        """Return whether to close the port: after a signal, once the drain delay is over."""
        self.connection_limits.sweep()
        if not await super().on_tick(counter):
            return False
        self._app.state.draining = True
        now = asyncio.get_running_loop().time()
        if self._closes_at is None:
            self._closes_at = now + self._drain_delay_s
        return self.force_exit or now >= self._closes_at

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in (each for server in self.servers for each in server.sockets):
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_S * 1000)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for route in self._streams:
            route.end()
        await super().shutdown(sockets)


def tune_garbage_collector() -> None:
    """Exclude loaded modules from garbage collection and run it rarely: scanning thousands of requests in flight
    took half the time of a large batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)
    gc.enable()


def raise_open_file_limit() -> None:
    """Raise the limit of open files (connections) to its maximum; shells default to 1,024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a lower limit than the one it reports
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_process(
    name: str, settings: HttpSettings, opened: Callable[[Tracing | None], AbstractAsyncContextManager[FastAPI]]
) -> None:
    """Run a process that serves the app until SIGINT or SIGTERM."""
    configure_logs(settings)

    async def main() -> None:
        forced_exit = ForcedExit(CLOSE_S)
        with open_tracing(settings, name) as tracing:
            async with opened(tracing) as app, exit_if_hanging(), measured_loop():
                await serve(app, settings, tracing)
                forced_exit.schedule()
        forced_exit.status = 0

    uvloop.run(main())


def run_alone(
    name: str, settings: HttpSettings, opened: Callable[[Tracing | None], AbstractAsyncContextManager[HttpModule]]
) -> None:
    """Run one service as its own process until SIGINT or SIGTERM."""

    @asynccontextmanager
    async def app(tracing: Tracing | None) -> AsyncIterator[FastAPI]:
        async with opened(tracing) as http_module:
            yield build_app(f"Tallykeeper: {name}", [http_module])

    run_process(name, settings, app)
