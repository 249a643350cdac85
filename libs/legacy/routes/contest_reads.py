"""Routes of contests and participants with their counts, which the query service serves."""

from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from libs.legacy.reads import LegacyReads
from libs.legacy.translators.models import LegacyContest, LegacyContests, LegacyParticipant, LegacyParticipants
from libs.web.auth import ApiKey, require
from libs.web.openapi import LEGACY_ANSWERS, needs

NextToken = Annotated[str | None, Query(alias="next", description="The `next` of the previous page.")]


def contest_reads_router(base: str, reads: LegacyReads) -> APIRouter:
    """Return the reads of one environment under `base`, with and without `/dev`."""
    router = APIRouter(tags=["legacy"], responses=LEGACY_ANSWERS)

    async def caller(request: Request) -> ApiKey:
        key = await reads.auth.authenticate_legacy(request.scope)
        require(key, "content:read")
        return key

    Caller = Annotated[ApiKey, Depends(caller)]

    async def contest(contest_id: str, key: Caller) -> Response:
        """Read a contest with its counts and approved participants."""
        return _json(await reads.contest(key, contest_id))

    async def contests(brand_id: str, key: Caller, token: NextToken = None) -> Response:
        """List the brand's contests, 20 per page, newest first."""
        return _json(await reads.contests(key, brand_id, token))

    async def participants(contest_id: str, key: Caller, token: NextToken = None) -> Response:
        """List the contest's participants of every status, 20 per page, newest first."""
        return _json(await reads.participants(key, contest_id, token))

    async def participant(participant_key: str, key: Caller) -> Response:
        """Read a participant with its counts."""
        return _json(await reads.participant(key, participant_key))

    for path, endpoint, model in (
        ("/contests/{contest_id}", contest, LegacyContest),
        ("/brands/{brand_id}/contests", contests, LegacyContests),
        ("/contests/{contest_id}/participants", participants, LegacyParticipants),
        ("/participants/{participant_key}", participant, LegacyParticipant),
    ):
        router.add_api_route(base + path, endpoint, response_model=model, openapi_extra=needs("content:read"))
        router.add_api_route(f"{base}/dev{path}", endpoint, include_in_schema=False)
    return router


def _json(content: Any) -> Response:
    return Response(
        orjson.dumps(content), headers={"Cache-Control": "private, no-cache"}, media_type="application/json"
    )
