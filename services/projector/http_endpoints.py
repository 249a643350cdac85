"""HTTP endpoints of the projector, and the checks behind `/readyz`."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from starlette.applications import Starlette

from libs.concurrency.tasks import first_success
from libs.deployment.deployment import Deployment
from libs.kafka.durability import recorded_on
from libs.monitoring.gauges import open_gauges
from libs.projection.projector import Projector
from libs.projection.votes_projector import VotesProjector
from libs.web.server.background_server import serve_in_background
from libs.web.server.health import Check, health_routes
from libs.web.server.metrics import metrics_route
from services.projector.settings import Settings
from services.projector.supervision import TaskSupervisor


@asynccontextmanager
async def served(settings: Settings, servers: Deployment, checks: Mapping[str, Check]) -> AsyncIterator[None]:
    """Serve `/metrics`, `/livez` and `/readyz` while the context is open, if a port is set."""
    if settings.metrics_port == 0:
        yield
        return
    async with open_gauges(servers) as refresh_gauges:
        routes = [metrics_route([refresh_gauges]), *health_routes(checks, {}, recorded_on(settings))]
        async with serve_in_background(Starlette(routes=routes), settings, settings.host, settings.metrics_port):
            yield


def readiness_checks(
    deployment: Deployment, projectors: Iterable[Projector | VotesProjector], supervisor: TaskSupervisor
) -> Mapping[str, Check]:
    """Return the checks by name: the servers, each projection's consumer, and each part of the process."""

    async def views_answer() -> None:
        live = deployment.vote_views.live
        await first_success(map(live.any_mark, live.groups(deployment.votes.numbers)))

    servers = {"deployment": deployment.guard.check, "log": deployment.writer.check, "views": views_answer}
    return {**servers, **{each.topic.name: each.check for each in projectors}, **supervisor.checks()}
