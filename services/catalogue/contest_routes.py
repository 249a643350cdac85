"""The route that reopens closed contests."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from pydantic import ConfigDict, Field
from starlette.responses import Response

from libs.catalogue.contests.reopening import Reopener
from libs.catalogue.resource_table import CONTESTS
from libs.catalogue.schemas.base import Members, Timestamp
from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import COMMAND_BODY
from libs.tally.time_conversion import microseconds
from libs.web.documents.openapi import problems
from libs.web.door.auth import Authenticator
from libs.web.door.request_parsing import RequestKeyStore, is_repetition
from libs.web.door.typed_routes import IdempotencyKey, JsonBody, Permitted, Sent, TypedRoute
from libs.web.responses import etag, json_response
from services.catalogue.openapi import record_answer


class Reopening(Members):
    """Request body of a reopening."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"end": "2036-05-02T20:00:00.000000Z"}]})

    end: Timestamp = Field(description="Time at which it closes again.")


def reopening_router(auth: Authenticator, reopener: Reopener, requests: RequestKeyStore) -> APIRouter:
    """Build the route, at the contest's own address and the operators'; who may end a contest may reopen it."""
    router = APIRouter(tags=["contests"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "content:write", "operations"))]
    Form = Annotated[Sent[Reopening], Depends(JsonBody(Reopening, COMMAND_BODY))]

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
        return json_response(CONTESTS.show(stored), 200, {"ETag": etag(stored.updated)}, replayed=replayed)

    responses = {
        200: record_answer(CONTESTS, "The contest is running again."),
        **problems("not_found", "status_transition", "contest_final"),
    }
    for area, name in ("", "reopen_contest"), ("/operations", "reopen_contest_as_operator"):
        path = f"{area}/contests/{{contest_key}}/reopen"
        router.post(path, responses=responses, name=name)(reopen_contest)
    return router
