"""Route that reopens a closed contest."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Members, Timestamp, checked
from libs.tally.time_conversion import microseconds
from libs.web.auth import ApiKey, Authenticator
from libs.web.common_parameters import IdempotencyKey
from libs.web.etags import etag
from libs.web.idempotency import RequestKeys, is_repetition
from libs.web.json_responses import json_response
from libs.web.openapi import BAD_BODY, answers
from libs.web.typed_routes import JsonBody, Permitted, Sent, TypedRoute
from services.catalogue.openapi import BEARER, record_answer


class Reopening(Members):
    """Request body of a reopening."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"end": "2026-05-02T20:00:00.000000Z"}]})

    end: Timestamp = Field(description="Time at which it closes again.")


def reopening_router(auth: Authenticator, reopener: Reopener, requests: RequestKeys) -> APIRouter:
    """Build the route; it needs the permission operations."""
    router = APIRouter(tags=["contests"], dependencies=[Depends(BEARER)], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "operations"))]
    Form = Annotated[Sent[Reopening], Depends(JsonBody(Reopening, partial(checked, Reopening)))]

    @router.post(
        "/operations/contests/{contest_key}/reopen",
        response_class=Response,
        responses=answers(
            *BAD_BODY,
            "not_found",
            "idempotency_key_reused",
            "status_transition",
            "contest_final",
            "log_unavailable",
            success={200: record_answer(CONTESTS, "The contest is running again.")},
        ),
    )
    async def reopen_contest(
        request: Request, caller: Caller, sent: Form, contest_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Reopen a closed contest.

        Voting continues until the new end; then the contest closes again. Late votes stay late; removals that
        waited take effect. A repeated request with the same end gets the same answer. A sealed contest must be
        unsealed first.
        """
        replayed = await is_repetition(requests, caller.account, request, idempotency_key, sent.content)
        stored = await reopener.reopen(caller.account, contest_key, microseconds(sent.form.end))
        return json_response(CONTESTS.show(stored), 200, {"ETag": etag(stored.version)}, replayed=replayed)

    return router
