"""Serving HTTP: one service alone, or several behind one front."""

import gc
import resource
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import uvicorn
import uvloop
from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from libs.telemetry.logs import configure_logs
from libs.telemetry.tracing import Tracing, open_tracing
from libs.web.asgi import Front, Refusal, nothing
from libs.web.asgi_routes import AsgiRoute, StreamRoute
from libs.web.auth import ApiKey
from libs.web.connection_limits import ConnectionLimits
from libs.web.docs_pages import page_routes
from libs.web.errors import handle_errors
from libs.web.health import Check, health_router
from libs.web.metrics import MetricRefresher, metrics_router
from libs.web.openapi_document import DocumentedApp
from libs.web.protocol import BoundedConfig
from libs.web.rate_limits import RateLimits, SharedCounts
from libs.web.settings import HttpSettings
from libs.web.side_server import served_beside
from libs.web.tracing import Traced

STUCK_S = 30
"""How long a client may take nothing of an answer that is sent to it."""
DRAIN_S = 10
"""How long requests that are under way may go on after the signal to stop."""

Complete = Callable[[ApiKey, str, list[dict[str, Any]]], Awaitable[None]]
"""Adds to records of one parent, as a key is shown them at an origin, what the catalogue's views do not hold."""


@dataclass(frozen=True, slots=True)
class HttpModule:
    """What a service shows over HTTP, and what it needs to be ready.

    `hot` routes are served before all others. `checks` are named for what they look at; `optional_checks` are
    checks, too, of what most requests can do without. `metric_refreshers` come before `/metrics` is answered.
    `enrichers` is what it adds to the records that another service shows, by the resource's name. While
    `refusal` gives a reason, the process serves nothing. `rate_counts` are shared with other processes, for
    rate limits.
    """

    hot: Sequence[AsgiRoute] = ()
    routers: Sequence[APIRouter] = ()
    routes: Sequence[BaseRoute] = ()
    checks: Mapping[str, Check] = field(default_factory=dict)
    metric_refreshers: Sequence[MetricRefresher] = ()
    optional_checks: Mapping[str, Check] = field(default_factory=dict)
    enrichers: Mapping[str, Complete] = field(default_factory=dict)
    refusal: Refusal = nothing
    rate_counts: SharedCounts | None = None


def build_app(title: str, http_modules: Sequence[HttpModule], **options: Any) -> FastAPI:
    """One app of several surfaces, with health routes over all their checks; wrap it in `Front` to serve it."""
    # the framework's own spans and logs would hold query strings and errors' texts; `Traced` makes ours
    silent: TelemetryConfig = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
    app = DocumentedApp(
        title=title, redirect_slashes=False, docs_url=None, redoc_url=None, telemetry=silent, **options
    )
    handle_errors(app)
    checks, optional_checks = dict[str, Check](), dict[str, Check]()
    app.state.refusals = [
        http_module.refusal for http_module in http_modules if http_module.refusal is not nothing
    ]
    app.state.rate_counts = next((each.rate_counts for each in http_modules if each.rate_counts is not None), None)
    for http_module in http_modules:
        app.router.routes.extend(http_module.hot)
        checks |= http_module.checks
        optional_checks |= http_module.optional_checks
    for http_module in http_modules:
        for router in http_module.routers:
            app.include_router(router)
        app.router.routes.extend(http_module.routes)
    app.include_router(health_router(checks, optional_checks))
    app.include_router(
        metrics_router(look for http_module in http_modules for look in http_module.metric_refreshers)
    )
    app.router.routes.extend(page_routes(title))
    return app


async def serve(app: FastAPI, settings: HttpSettings, tracing: Tracing | None = None) -> None:
    """Serve until SIGINT or SIGTERM, then let what is under way finish. The caller closes what the app uses."""
    spare_the_collector()
    take_all_files()
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again once it has drained; by then it has been obeyed
        signal.signal(number, signal.SIG_IGN)
    server = Server(app, settings, tracing)
    async with AsyncExitStack() as stack:
        if settings.operations_port:
            host = settings.operations_host or settings.host
            await stack.enter_async_context(
                served_beside(server.operations, settings, host, settings.operations_port)
            )
        await server.serve()


class Server(uvicorn.Server):
    """Ends streams before it waits for what is under way, and cuts off who takes nothing for `STUCK_S`, where the
    system can."""

    def __init__(self, app: FastAPI, settings: HttpSettings, tracing: Tracing | None = None) -> None:
        hot = [route for route in app.routes if isinstance(route, AsgiRoute)]
        self._streams = [route for route in hot if isinstance(route, StreamRoute)]
        proxies = settings.proxies()
        limits = RateLimits(settings, proxies, getattr(app.state, "rate_counts", None))

        def front(*, shows_operations: bool) -> ASGIApp:
            found = Front(app, hot, getattr(app.state, "refusals", ()), limits, shows_operations)
            return found if tracing is None else Traced(found, tracing, proxies)

        self.operations = front(shows_operations=True)
        """The app as operators see it."""
        self.door = ConnectionLimits(settings, proxies)
        super().__init__(
            BoundedConfig(
                front(shows_operations=settings.shows_operations),
                self.door,
                host=settings.host,
                port=settings.port,
                timeout_graceful_shutdown=DRAIN_S,
            )
        )

    async def on_tick(self, counter: int) -> bool:
        self.door.sweep()
        return await super().on_tick(counter)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listening in (each for server in self.servers for each in server.sockets):
            if hasattr(socket, "TCP_USER_TIMEOUT"):
                listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, STUCK_S * 1000)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for route in self._streams:
            route.end()
        await super().shutdown(sockets)


def spare_the_collector() -> None:
    """What is loaded by now stays; thousands of requests under way are no garbage to look for. Half the time of a
    large batch went into that."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(500_000, 10, 10)


def take_all_files() -> None:
    """A connection is an open file, and a shell allows 1,024 unless asked for more: what may be had, is taken."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):  # macOS has a limit beyond the one that it names
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def run_process(
    name: str, settings: HttpSettings, opened: Callable[[Tracing | None], AbstractAsyncContextManager[FastAPI]]
) -> None:
    """A process that serves the app, until it is told to stop."""
    configure_logs(settings)

    async def main() -> None:
        with open_tracing(settings, name) as tracing:
            async with opened(tracing) as app:
                await serve(app, settings, tracing)

    uvloop.run(main())


def run_alone(
    name: str, settings: HttpSettings, opened: Callable[[Tracing | None], AbstractAsyncContextManager[HttpModule]]
) -> None:
    """One service as a process of its own, until it is told to stop."""

    @asynccontextmanager
    async def app(tracing: Tracing | None) -> AsyncIterator[FastAPI]:
        async with opened(tracing) as http_module:
            yield build_app(f"Tallykeeper: {name}", [http_module])

    run_process(name, settings, app)
