"""HTTP endpoints of the projector."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from libs.deployment.deployment import Deployment
from libs.monitoring.gauges import open_gauges
from libs.web.server.background_server import serve_in_background
from libs.web.server.health import Check, health_routes
from libs.web.server.metrics import metrics_route
from services.projector.settings import Settings


@asynccontextmanager
async def served(settings: Settings, servers: Deployment, checks: Mapping[str, Check]) -> AsyncIterator[None]:
    """Serve `/metrics`, `/livez` and `/readyz` while the context is open, if a port is set."""
    if settings.metrics_port == 0:
        yield
        return
    async with open_gauges(servers) as refresh_gauges:
        routes = [metrics_route([refresh_gauges]), *health_routes(checks, {})]
        async with serve_in_background(Starlette(routes=routes), settings, settings.host, settings.metrics_port):
            yield
