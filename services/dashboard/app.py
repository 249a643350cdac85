"""The composition root of the dashboard."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version

from libs.catalogue.contests.wall_links import Viewers, WallLinks
from libs.deployment.deployment import Deployment
from libs.deployment.environment_catalogue import Environment
from libs.monitoring.collector import StatusCollector
from libs.web.door.auth import Authenticator
from libs.web.server.health import Check
from libs.web.server.http_service import HttpModule
from services.dashboard.pages import page_routes, shared_routes
from services.dashboard.session_routes import session_router
from services.dashboard.settings import Settings
from services.dashboard.status import StatusCache, status_router


@asynccontextmanager
async def open_module(
    settings: Settings, servers: Deployment, checks: Mapping[str, Check] | None = None
) -> AsyncIterator[HttpModule]:
    """Open the pages, their assets, and log-in; the pages read their data from the API.

    The status for operators includes `checks`, those of the services in the same process.
    """
    keys = await servers.keys_of(Environment.PRODUCTION)
    auth = Authenticator(keys, settings.proxies(), servers.sessions)
    viewers = Viewers(auth, WallLinks(servers.ring("links"), servers.catalogue.views))
    status = StatusCache(
        StatusCollector(servers),
        checks or {},
        version("tallykeeper"),
        settings.projector_urls(),
        settings.command_options,
    )
    try:
        yield HttpModule(
            rate_counts=servers.rate_counts,
            routers=[session_router(auth, keys, servers.sessions, servers.requests), status_router(auth, status)],
            routes=[
                *shared_routes(viewers, servers.catalogue.views),
                *page_routes(settings.dashboard_language),
            ],
        )
    finally:
        await status.close()
