"""Route of the deployment's status, for the operator's page and other monitoring."""

from typing import Annotated

from fastapi import APIRouter, Depends
from starlette.responses import Response

from libs.web.auth import ApiKey, Authenticator
from libs.web.json_responses import NO_STORE, json_response
from libs.web.openapi import answers
from libs.web.typed_routes import Permitted, TypedRoute
from services.dashboard.status import StatusCache
from services.dashboard.status_models import OperationsStatus


def status_router(auth: Authenticator, status: StatusCache) -> APIRouter:
    """Create the router, which requires the permission `operations`."""
    router = APIRouter(tags=["operations"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "operations"))]

    @router.get(
        "/operations/status",
        response_model=OperationsStatus,
        responses=answers(success={}),
    )
    async def read_status(caller: Caller) -> Response:
        """Read the deployment's status.

        It contains the progress of every projection and the problems that need an operator, as in
        `tally status --json`, read at `at`, at most a second ago. While Kafka or Valkey is unavailable, it is the
        last status read, and `problems` begins with the unavailable server; the response is still a 200.
        """
        return json_response(await status.read(caller.account), 200, NO_STORE)

    return router
