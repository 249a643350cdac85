"""Routes that renew a file's upload address and delete a file; files are read like every other record."""

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from libs.catalogue.resource_table import FILES
from libs.web.auth import ApiKey, Authenticator
from libs.web.common_parameters import IdempotencyKey, IfMatch
from libs.web.json_responses import json_response
from libs.web.openapi import answers
from libs.web.typed_routes import Permitted, TypedRoute
from services.catalogue.files import Files
from services.catalogue.openapi import BEARER, record_answer
from services.catalogue.routes import fits
from services.catalogue.upload_urls import UploadUrls
from services.catalogue.write_requests import write_request


def file_router(auth: Authenticator, files: Files, urls: UploadUrls) -> APIRouter:
    """Build the routes; all need the permission content:write."""
    router = APIRouter(tags=["files"], dependencies=[Depends(BEARER)], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "content:write"))]

    @router.post(
        "/files/{file_key}/upload_url",
        response_class=Response,
        responses=answers(
            "not_found",
            "validation_failed",
            "idempotency_key_reused",
            "log_unavailable",
            success={200: record_answer(FILES, "With another `upload_url`.")},
        ),
    )
    async def renew_upload_url(
        request: Request, caller: Caller, file_key: str, idempotency_key: IdempotencyKey = None
    ) -> Response:
        """Renew a file's upload_url.

        The file gets a new address. Earlier ones become invalid, and an upload still running at one of them is
        refused at its end. The bytes stay.
        """
        write = write_request(caller.account, request, idempotency_key, b"")
        written = await files.renew(caller.account, file_key, write)
        shown = FILES.show(written.stored)
        await urls(caller, str(request.base_url).rstrip("/"), [shown])
        return json_response(shown, replayed=written.replayed)

    @router.delete(
        "/files/{file_key}",
        status_code=204,
        summary="Delete a file",
        operation_id="delete_file",
        response_class=Response,
        responses=answers(
            "not_found",
            "in_use",
            "version_conflict",
            "log_unavailable",
            success={204: {"description": "Deleted, with its bytes."}},
        ),
    )
    async def delete_file(caller: Caller, file_key: str, if_match: IfMatch = None) -> Response:
        """Deletes the record and its bytes; its `upload_url` becomes invalid."""
        await files.delete(caller.account, file_key, fits(if_match))
        return Response(status_code=204)

    return router
