"""Route of the deployment's status, for the operator's page and other monitoring."""

import orjson
from fastapi import APIRouter, Request
from starlette.responses import Response

from libs.web.auth import Authenticator, require
from libs.web.openapi import answers, needs
from services.dashboard.status import StatusCache
from services.dashboard.status_models import OperationsStatus


def status_router(auth: Authenticator, status: StatusCache) -> APIRouter:
    """Create the router, which requires the permission `operations`."""
    router = APIRouter(tags=["operations"])

    @router.get(
        "/operations/status",
        response_model=OperationsStatus,
        responses=answers(success={}),
        openapi_extra=needs("operations"),
    )
    async def read_status(request: Request) -> Response:
        """Read the deployment's status.

        It contains the progress of every projection and the problems that need an operator, as in
        `tally status --json`, read at `at`, at most a second ago. While Kafka or Valkey is unavailable, it is the
        last status read, and `problems` begins with the unavailable server; the response is still a 200.
        """
        key = await auth.authenticate(request.scope)
        require(key, "operations")
        return Response(
            orjson.dumps(await status.read(key.account)), 200, {"Cache-Control": "no-store"}, "application/json"
        )

    return router
