"""Health and metrics with their OpenAPI descriptions, for processes that serve the API."""

from collections.abc import Iterable, Mapping

from fastapi import APIRouter
from pydantic import BaseModel, Field
from starlette.responses import Response

from libs.web.server.asgi_routes import PlainRoute
from libs.web.server.health import Check, endpoints
from libs.web.server.metrics import MetricRefresher, metrics_route


class Liveness(BaseModel):
    status: str = Field(description="Always `alive`.")


class Readiness(BaseModel):
    ready: bool = Field(description="Whether all required dependencies are available.")
    dependencies: dict[str, str] = Field(
        description="`ready` or `unavailable`, by dependency; some are optional. Listed on the operators' port "
        "only. The process's log and `tally doctor` give the reasons."
    )


def health_router(checks: Mapping[str, Check], optional_checks: Mapping[str, Check]) -> APIRouter:
    """Return `health_routes` with their OpenAPI descriptions; anybody may send many, so they are plain ASGI."""
    livez, readyz = endpoints(checks, optional_checks)
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
