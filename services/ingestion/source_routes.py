"""Route for reports of external sources."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from libs.contracts.catalogue_events import ApiKey
from libs.contracts.limits import JSON_BODY
from libs.contracts.position_token import PositionTokens
from libs.voting.source_reports import SourceReporter
from libs.web.documents.openapi import REPLAYED, problems
from libs.web.door.auth import Authenticator
from libs.web.door.request_parsing import RequestKeyStore, is_repetition
from libs.web.door.typed_routes import IdempotencyKey, JsonBody, Permitted, Sent, TypedRoute
from libs.web.responses import json_response
from services.ingestion.routes import POSITION
from services.ingestion.source_forms import ReportAnswer, ReportForm, answer


def source_router(
    auth: Authenticator, reporter: SourceReporter, requests: RequestKeyStore, positions: PositionTokens
) -> APIRouter:
    router = APIRouter(tags=["vote sources"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "sources:write"))]
    Report = Annotated[Sent[ReportForm], Depends(JsonBody(ReportForm, JSON_BODY))]

    @router.post(
        "/contests/{contest_key}/vote_sources/{source}/counts",
        status_code=202,
        responses={
            202: {"model": ReportAnswer, "description": "Recorded and counted.", "headers": POSITION | REPLAYED},
            **problems("not_found", "idempotency_key_reused", "contest_final"),
        },
    )
    async def report_counts(
        request: Request,
        caller: Caller,
        sent: Report,
        contest_key: str,
        source: str,
        idempotency_key: IdempotencyKey = None,
    ) -> Response:
        """Report an external source's counts.

        For each id of a cumulative source the latest count in log order applies; a lower one is held unless the
        report has `allow_decrease`. The same `report_id` with the same content gets the first result again, so
        after a 503 or a lost response, send the same report again.
        """
        await positions.load()
        await is_repetition(requests, caller.account, request, idempotency_key, sent.content)
        folded = await reporter.report(caller.account, contest_key, source, sent.form.report())
        headers = {"Tally-Position": positions.encode({folded.partition: folded.offset + 1})}
        shown = answer(contest_key, source, sent.form, folded)
        return json_response(shown.model_dump(mode="json"), 202, headers, replayed=folded.replayed)

    return router
