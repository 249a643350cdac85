"""The address that the operator's page reads, and whoever watches the service by other means."""

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from libs.web.auth import Authenticator, require
from libs.web.openapi import answers, needs
from services.dashboard.status import StatusCache
from services.dashboard.status_models import OperationsStatus


def standing_router(auth: Authenticator, standing: StatusCache) -> APIRouter:
    """Needs the permission operations."""
    router = APIRouter(tags=["operations"])

    @router.get(
        "/operations/status",
        response_model=OperationsStatus,
        responses=answers(success={}),
        openapi_extra=needs("operations"),
    )
    async def read_status(request: Request) -> Response:
        """How far everything is, and what somebody has to see to: as `tally status --json`.

        What is answered was read at `at`, a second ago at most. While Kafka or Valkey is away it is what was read
        last, and `problems` begins with what is away: that is no error of this read.
        """
        key = await auth.authenticate(request.scope)
        require(key, "operations")
        found = await standing.read(key.account)
        return Response(orjson.dumps(found), 200, {"Cache-Control": "no-store"}, "application/json")

    return router
