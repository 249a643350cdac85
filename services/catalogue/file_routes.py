"""Routes of files' bytes and of their upload addresses; files are read like every other record."""

from hashlib import blake2b
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.media import KeptBytes, fits_type, kept_bytes, upload_id
from libs.contracts.catalogue_events import Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.storage.object_store import StorageUnavailable
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import UNCHANGED, Schema, needs, problems
from libs.web.door.auth import ApiKey, Authenticator, headers_of, require
from libs.web.door.rate_limits import charge_unauthenticated
from libs.web.door.request_parsing import stream_body
from libs.web.door.typed_routes import IdempotencyKey, IfMatch, IfNoneMatch, Permitted, TypedRoute
from libs.web.errors import Unauthorized, UnsupportedMediaType
from libs.web.responses import SAFE, Span, attachment, etag, json_response, matches, not_modified, requested_range
from services.catalogue.files import Files, UploadUrls
from services.catalogue.openapi import record_answer
from services.catalogue.routes import fits, write_request


def file_router(auth: Authenticator, files: Files, urls: UploadUrls) -> APIRouter:
    """Build the routes; all need the permission content:write."""
    router = APIRouter(tags=["files"], route_class=TypedRoute)
    Caller = Annotated[ApiKey, Depends(Permitted(auth, "content:write"))]

    @router.post(
        "/files/{file_key}/upload_url",
        summary="Renew a file's upload address",
        responses={200: record_answer(FILES, "With another `upload_url`."), **problems("not_found")},
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
        responses={204: {"description": "Deleted, with its bytes."}, **problems("not_found", "in_use")},
    )
    async def delete_file(caller: Caller, file_key: str, if_match: IfMatch = None) -> Response:
        """Deletes the record and its bytes; its `upload_url` becomes invalid."""
        await files.delete(caller.account, file_key, fits(if_match))
        return Response(status_code=204)

    return router


CONTENT: Final = "/files/{file_key}/content"
TRIES: Final = 3
"""Attempts of one read whose bytes are replaced meanwhile."""
Signature = Annotated[
    str | None, Query(description="Signature from the file's `upload_url`; replaces the API key.")
]
Range = Annotated[
    str | None, Header(alias="Range", description="One range of bytes; for several ranges, all bytes are sent.")
]
IfRange = Annotated[
    str | None, Header(alias="If-Range", description="Send the range only if the ETag matches, else all bytes.")
]
BINARY: Final[Schema] = {"*/*": {"schema": {"type": "string", "format": "binary"}}}
NOTHING_HERE: Final = "There is nothing at this address."
NO_BYTES: Final = "No bytes have been sent for this file: PUT them to its upload_url."


class Admission(NamedTuple):
    """The file's account, and the `upload_id` of a signed address; None for an API key."""

    account: str
    upload_id: str | None


def file_content_router(
    auth: Authenticator, views: CatalogueViews, files: Files, urls: UploadUrls, max_bytes: int
) -> APIRouter:
    """Build the routes. Except for public files, they need a signature or an API key."""
    router = APIRouter(tags=["files"], route_class=TypedRoute)

    async def admit(request: Request, key: str, permission: str, signature: str | None) -> Admission:
        """Admit a request with the file's signature, or with an API key of the account that has `permission`.

        Raises `Unauthorized`, `Forbidden`, `RateLimited`, and `NotFound` for a wrong signature or, without a key,
        any other query.
        """
        if signature is None:
            try:
                caller = await auth.authenticate(request.scope)
            except Unauthorized:
                if request.url.query:
                    raise NotFound(NOTHING_HERE) from None
                raise
            require(caller, permission)
            return Admission(caller.account, None)
        await charge_unauthenticated(request.scope)
        owner = await views.find_owner(FILES.name, key)
        stored = None if owner is None else await views.get(owner, FILES.name, key)
        if owner is None or stored is None or not await urls.admits(owner, stored, signature):
            raise NotFound(NOTHING_HERE)
        auth.note_actor(request.scope, "upload_url", key)
        return Admission(owner, upload_id(stored.document))

    async def public(key: str) -> str | None:
        """Return the account of a publicly readable file; None if the request needs a signature or a key."""
        owner = await views.find_owner(FILES.name, key)
        if owner is None:
            return None
        document = (await files.get(owner, key)).document
        is_public = document.get("access", {}).get("access") == "public"
        return owner if is_public and fits_type(document) else None

    @router.put(
        CONTENT,
        summary="Upload a file's bytes",
        status_code=204,
        responses={
            204: {"description": "Stored as the file's bytes.", "headers": _headers("ETag")},
            **problems("not_found", "malware_found", "scanner_unavailable"),
        },
        openapi_extra=needs("content:write") | {"requestBody": {"required": True, "content": BINARY}},
    )
    async def put_file_content(request: Request, file_key: str, signature: Signature = None) -> Response:
        """Send a file's bytes.

        The bytes replace earlier ones atomically when the upload is complete: concurrent readers get either the
        old or the new bytes. The request may be repeated. If the deployment has a malware scanner, recognised
        malware is refused and not stored, and `is_scanned` is true for files that passed. Bytes that do not match
        `file_type` are stored, but not served publicly. With the signature no key is needed.
        """
        account, signed = await admit(request, file_key, "content:write", signature)
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMediaType("Send the bytes without Content-Encoding.")
        if "content-range" in request.headers:
            raise ValidationFailed([Problem("", "Content-Range is not supported: send all bytes at once")])
        stored = await files.put(
            account, file_key, stream_body(headers_of(request.scope), request.receive, max_bytes), signed
        )
        kept = kept_bytes(stored.document)
        return Response(status_code=204, headers={} if kept is None else {"ETag": _tag(stored, kept)})

    @router.get(
        CONTENT,
        summary="Download a file's bytes",
        responses={
            200: {
                "description": "All bytes.",
                "headers": _headers("ETag", "Content-Disposition", "Accept-Ranges"),
                "content": BINARY,
            },
            206: {"description": "The range.", "headers": _headers("Content-Range"), "content": BINARY},
            **UNCHANGED,
            **problems("not_found", "range_not_satisfiable"),
        },
        openapi_extra=needs("content:read"),
    )
    async def get_file_content(
        request: Request,
        file_key: str,
        signature: Signature = None,
        requested: Range = None,
        if_range: IfRange = None,
        if_none_match: IfNoneMatch = None,
    ) -> Response:
        """Read a file's bytes.

        No key is needed with the signature, or for a public file whose bytes match `file_type`.
        """
        public_of = None if signature is not None else await public(file_key)
        account = public_of or (await admit(request, file_key, "content:read", signature)).account
        for _ in range(TRIES):
            stored = await files.get(account, file_key)
            kept = kept_bytes(stored.document)
            if kept is None:
                raise NotFound(NO_BYTES)
            tag = _tag(stored, kept)
            headers = {**SAFE, "ETag": tag, "Accept-Ranges": "bytes"}
            headers["Cache-Control"] = "no-cache" if public_of else "private, no-cache"
            if not_modified(if_none_match, tag):
                return Response(status_code=304, headers=headers)
            span = requested_range(requested, kept.size) if if_range is None or matches(if_range, tag) else None
            start, end = span or Span(0, kept.size)
            headers |= {
                "Content-Type": stored.document["file_type"],
                "Content-Length": str(end - start),
                "Content-Disposition": attachment(stored.document["filename"]),
            }
            if span is not None:
                headers["Content-Range"] = f"bytes {start}-{end - 1}/{kept.size}"
            if start == end:
                return Response(headers=headers)
            chunks = await files.read(account, file_key, kept.object, start, end)
            if chunks is not None:  # else the bytes were replaced or deleted
                return StreamingResponse(chunks, 200 if span is None else 206, headers)
        raise StorageUnavailable("The file's bytes cannot be read at the moment.", retry_after_s=1)

    @router.delete(
        CONTENT,
        summary="Delete a file's bytes",
        status_code=204,
        responses={204: {"description": "The file has no bytes any more."}, **problems("not_found")},
        openapi_extra=needs("content:write"),
    )
    async def delete_file_content(request: Request, file_key: str, signature: Signature = None) -> Response:
        """Delete a file's bytes; the record stays. With the signature no key is needed."""
        account, signed = await admit(request, file_key, "content:write", signature)
        await files.drop(account, file_key, signed)
        return Response(status_code=204)

    return router


def _tag(stored: Stored, kept: KeptBytes) -> str:
    """Return the ETag of the bytes, their type and their file name."""
    document: dict[str, Any] = stored.document
    names = f"{document['file_type']}\0{document['filename']}".encode()
    return etag(f"{kept.sha256[:32]}.{blake2b(names, digest_size=8).hexdigest()}")


def _headers(*names: str) -> Schema:
    return {name: {"schema": {"type": "string"}} for name in names}
