"""Files' bytes and their upload addresses, with their routes; files are read like every other record.

The bytes are in the object store, under a new object name for each upload; the record names the current one.
Objects that no record names (after a crash between the two writes) are deleted by the next PUT or DELETE of the
file.
"""

import hashlib
import hmac
import logging
import secrets
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import blake2b, sha256
from typing import Annotated, Any, Final, NamedTuple

from fastapi import APIRouter, Depends, Header, Query, Request
from starlette.responses import Response, StreamingResponse

from libs.catalogue.commands import WriteRequest
from libs.catalogue.records import RecordService, Written
from libs.catalogue.resource_definition import Fits
from libs.catalogue.resource_table import FILES
from libs.catalogue.schemas.base import Document
from libs.catalogue.schemas.media import KeptBytes, fits_type, kept_bytes, upload_id
from libs.contracts.catalogue_events import ApiKey, Stored
from libs.contracts.validation import Problem, ValidationFailed
from libs.media.clamd import Clamd
from libs.media.content_sniffing import TypeCheck
from libs.storage.object_store import StorageUnavailable, Store, environment_files
from libs.storage.secret_rings import SecretRing
from libs.tally.errors import NotFound
from libs.views.catalogue.catalogue_views import CatalogueViews
from libs.web.documents.openapi import UNCHANGED, Schema, limited, needs, problems
from libs.web.door.auth import Authenticator, headers_of, require
from libs.web.door.rate_limits import charge_unauthenticated, stream_uncounted
from libs.web.door.request_parsing import stream_body
from libs.web.door.typed_routes import IdempotencyKey, IfMatch, IfNoneMatch, Permitted, TypedRoute
from libs.web.errors import Unauthorized, UnsupportedMediaType
from libs.web.responses import SAFE, Span, attachment, etag, json_response, matches, not_modified, requested_range
from services.catalogue.openapi import record_answer
from services.catalogue.routes import fits, write_request

NAME_BYTES: Final = 12
IDLE_S: Final = 3600
"""Objects without a record are kept this long after their last write: their record may follow."""

logger = logging.getLogger(__name__)


class Files:
    """Stores, reads and deletes the bytes of one environment's files."""

    def __init__(
        self, namespace: str, record_service: RecordService, store: Store, scanner: Clamd | None = None
    ) -> None:
        self._prefix = f"{environment_files(namespace)}files"
        self._record_service = record_service
        self._store = store
        self._scanner = scanner

    async def get(self, account: str, key: str) -> Stored:
        """Return the file's record. Raises `NotFound`."""
        return await self._record_service.get(FILES, account, key)

    async def put(self, account: str, key: str, chunks: AsyncIterator[bytes], signed: str | None = None) -> Stored:
        """Store the chunks as the file's bytes; they replace earlier ones atomically when all have arrived.

        `signed` is the `upload_id` of the address in use; the upload is refused if it was renewed meanwhile.
        Raises what `chunks` raises, `NotFound`, `StorageUnavailable`, and as `RecordService.amend`: after an
        unknown outcome either bytes may be current, and the PUT may be repeated.
        """
        stored = await self.get(account, key)
        file_type: str = stored.document["file_type"]
        name, check = secrets.token_hex(NAME_BYTES), TypeCheck(file_type)
        digest, size = hashlib.sha256(), 0

        async def looked_at() -> AsyncIterator[bytes]:
            nonlocal size
            async for chunk in chunks:
                size += len(chunk)
                digest.update(chunk)
                check.feed(chunk)
                yield chunk

        await self._store.write(self._object(account, key, name), looked_at())
        scanned = await self._scan(account, key, name, size)
        kept = KeptBytes(name, size, digest.hexdigest(), file_type, check.passed(), scanned)
        before: KeptBytes | None = None

        def change(document: Document) -> Document:
            nonlocal before
            _refuse_renewed(document, signed)
            before = kept_bytes(document)
            return document | {"bytes": kept.stored()}

        try:
            stored, _ = await self._record_service.amend(FILES, account, key, change)
        except NotFound:
            await self._store.delete(self._object(account, key, name))
            raise
        await self._tidy(account, key, before, name)
        return stored

    async def _scan(self, account: str, key: str, name: str, size: int) -> bool:
        """Return whether a scanner passed the object; False without a scanner. Refused objects are deleted.

        Scans the stored object, so that a slow client does not occupy the scanner.
        """
        if self._scanner is None:
            return False
        try:
            chunks = await self.read(account, key, name, 0, size) if size else _nothing()
            if chunks is not None:
                await self._scanner.scan(chunks)
        except BaseException:
            with suppress(StorageUnavailable):  # otherwise the next PUT or DELETE deletes it
                await self._store.delete(self._object(account, key, name))
            raise
        return chunks is not None

    async def read(self, account: str, key: str, name: str, start: int, end: int) -> AsyncIterator[bytes] | None:
        """Read the range (at least one byte) of object `name`; None if it was replaced or deleted meanwhile."""
        return await self._store.read(self._object(account, key, name), start, end)

    async def renew(self, account: str, key: str, request: WriteRequest) -> Written:
        """Give the file a new upload address, once per idempotent `request`. Raises as `RecordService.amend`."""
        new = {"upload_id": secrets.token_hex(NAME_BYTES)}
        return await self._record_service.amend(FILES, account, key, lambda document: document | new, request)

    async def drop(self, account: str, key: str, signed: str | None = None) -> None:
        """Remove the file's bytes, if any; the record stays. Raises as `put`."""
        before: KeptBytes | None = None

        def change(document: Document) -> Document:
            nonlocal before
            _refuse_renewed(document, signed)
            before = kept_bytes(document)
            return {name: value for name, value in document.items() if name != "bytes"}

        await self._record_service.amend(FILES, account, key, change)
        await self._tidy(account, key, before, None)

    async def delete(self, account: str, key: str, fits: Fits | None) -> None:
        """Delete the record, then its bytes; repeated after a failure, it deletes the remaining bytes.

        Raises as `RecordService.delete`, and `StorageUnavailable`.
        """
        try:
            await self._record_service.delete(FILES, account, key, fits)
        except NotFound:
            if key.isalnum():  # other keys were never a file's, and could be path segments
                await self._store.sweep(self._folder(account, key))
            raise
        await self._store.sweep(self._folder(account, key))

    async def _tidy(self, account: str, key: str, before: KeptBytes | None, now: str | None) -> None:
        """Delete obsolete objects; those that the object store cannot delete now are left to the next call."""
        keep = None if now is None else self._object(account, key, now)
        try:
            if before is not None:
                await self._store.delete(self._object(account, key, before.object))
            await self._store.sweep(self._folder(account, key), keep, IDLE_S)
        except StorageUnavailable as error:
            logger.warning("obsolete bytes of file %s could not be deleted: %s", key, error)

    def _folder(self, account: str, key: str) -> str:
        return f"{self._prefix}/{account}/{key}"

    def _object(self, account: str, key: str, name: str) -> str:
        return f"{self._folder(account, key)}/{name}"


def _refuse_renewed(document: Document, signed: str | None) -> None:
    if signed is not None and signed != upload_id(document):
        raise NotFound("There is nothing at this address.")


async def _nothing() -> AsyncIterator[bytes]:
    for chunk in tuple[bytes, ...]():
        yield chunk


WRITE = "content:write"
"""The signed address accepts PUT and DELETE, so only keys with this permission receive it."""


class UploadUrls:
    """Signs and checks upload addresses; a `Complete` for files. `public_url` is their origin, if set."""

    def __init__(self, secrets: SecretRing, views: CatalogueViews, public_url: str) -> None:
        self._secrets = secrets
        self._views = views
        self._public_url = public_url

    async def __call__(self, key: ApiKey, origin: str, files: list[dict[str, Any]]) -> None:
        """Add upload addresses to `files` for keys that may write.

        Raises `StorageUnavailable` and `ViewsUnavailable`.
        """
        for file in files if WRITE in key.permissions else ():
            stored = await self._views.get(key.account, FILES.name, file["key"])
            if stored is not None:
                signature = _signature((await self._secrets())[-1], key.account, stored)
                path = f"/files/{stored.key}/content"
                file["upload_url"] = f"{self._public_url or origin}{path}?signature={signature}"

    async def admits(self, account: str, file: Stored, signature: str) -> bool:
        """Return whether the signature is currently valid for the account's file. Raises `StorageUnavailable`."""
        for again in (False, True):
            known = [_signature(secret, account, file) for secret in await self._secrets(again)]
            if any(hmac.compare_digest(each.encode(), signature.encode()) for each in known):
                return True
        return False

    async def load(self) -> None:
        """Load the signing secrets, so that later calls need no object store. Raises `StorageUnavailable`."""
        await self._secrets.load()


def _signature(secret: bytes, account: str, file: Stored) -> str:
    signed = f"{account}\0{file.key}\0{upload_id(file.document)}"
    return urlsafe_b64encode(hmac.digest(secret, signed.encode(), sha256)).rstrip(b"=").decode()


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
        openapi_extra=needs("content:write")
        | {"requestBody": limited({"required": True, "content": BINARY}, max_bytes)},
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
        stream_uncounted(request.scope)
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
