"""Forms with one file, within limits of size: parsing, and their schemas in the documents."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from libs.contracts.validation import Problem, ValidationFailed
from libs.web.documents.openapi import Schema
from libs.web.door.auth import headers_of
from libs.web.door.request_parsing import MAX_JSON_BYTES, declared_length, require_utf8
from libs.web.errors import PayloadTooLarge, UnsupportedMediaType


def json_text(schema: Schema) -> Schema:
    """Return the schema of a text that holds JSON, as `schema` describes it."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema} | about(schema)


def about(schema: Schema) -> Schema:
    """Return a member's description, and its default as text."""
    described = {name: schema[name] for name in ("description",) if name in schema}
    default = schema.get("default")
    if default is not None:
        described["default"] = default if isinstance(default, str) else orjson.dumps(default).decode()
    return described


def as_fields(properties: Mapping[str, Any], texts: tuple[str, ...]) -> Schema:
    """Return form fields for `properties`: those in `texts` are plain text, others with a type JSON text."""
    return {
        name: schema
        if schema == about(schema)
        else {"type": "string"} | about(schema)
        if name in texts
        else json_text(schema)
        for name, schema in properties.items()
    }


@asynccontextmanager
async def open_form(request: Request, max_bytes: int, kinds: Sequence[str], most: int) -> AsyncIterator[FormData]:
    """Parse a form of one of the media types `kinds`, with one file and at most `most` fields.

    Large files are spooled to a temporary file. Raises `PayloadTooLarge` as soon as the limit is exceeded,
    `UnsupportedMediaType`, and `ValidationFailed`.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in kinds:
        raise UnsupportedMediaType(f"Send {' or '.join(kinds)}, not {given or 'nothing'}.")
    require_utf8(headers_of(request.scope))
    try:
        form = await _limited(request, max_bytes + MAX_JSON_BYTES).form(
            max_files=1, max_fields=most, max_part_size=MAX_JSON_BYTES
        )
    except HTTPException as error:
        raise ValidationFailed([Problem("", str(error.detail))]) from None
    try:
        for part in form.values():
            if isinstance(part, UploadFile) and (part.size or 0) > max_bytes:
                raise _too_large(max_bytes)
        yield form
    finally:
        await form.close()


def _limited(request: Request, max_bytes: int) -> Request:
    """Return the request with a body that raises `PayloadTooLarge` after `max_bytes`."""
    if (declared_length(headers_of(request.scope)) or 0) > max_bytes:
        raise _too_large(max_bytes)
    size = 0

    async def receive() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise _too_large(max_bytes)
        return message

    return Request(request.scope, receive)


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The file may have {max_bytes:,} bytes at most.", max_bytes=max_bytes)
