"""Parses forms with one file, within limits of size."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from libs.contracts.validation import Problem, ValidationFailed
from libs.web.auth import headers_of
from libs.web.errors import PayloadTooLarge, UnsupportedMediaType
from libs.web.request_parsing import MAX_JSON_BYTES, declared_length, require_utf8


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
