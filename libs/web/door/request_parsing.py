"""Parsing of requests: size-limited bodies, JSON, parameters, and forms with one file."""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any, Final, Protocol
from urllib.parse import parse_qsl

import orjson
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from libs.concurrency.turns import TURN_BYTES, off_loop
from libs.contracts.limits import FORM_FIELDS, FORM_FIELDS_BODY
from libs.contracts.validation import Problem, ValidationFailed
from libs.tally.errors import IdempotencyKeyReused
from libs.web.documents.openapi import Schema
from libs.web.door.auth import Headers, header, headers_of
from libs.web.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType

MAX_VALUES: Final = 60_000
"""Members and items in one body: a full report of an external source has 50,000. Parsing each blocks the event
loop for a few microseconds."""
MAX_DEPTH: Final = 100
"""Levels of nested objects and arrays; no valid record is deeper."""
CONTAINERS: Final = dict, list
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")
FORM_CHARSETS: Final = ("utf-8", "utf8", "us-ascii")
_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")


async def read_body(headers: Headers, receive: Receive, max_bytes: int) -> bytes:
    """Return the whole body. Raises `PayloadTooLarge` once it exceeds `max_bytes`, before reading the rest."""
    chunks = [chunk async for chunk in stream_body(headers, receive, max_bytes)]
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def declared_length(headers: Headers) -> int | None:
    """Return the Content-Length; None if it is missing or not a number."""
    value = header(headers, b"content-length") or ""
    return int(value.lstrip("0")[:20] or 0) if value.isascii() and value.isdigit() else None


def declared_size(headers: Headers, most: int) -> int:
    """Return the body's size by its Content-Length, or `most` without one; never more than `most`."""
    declared = declared_length(headers)
    return most if declared is None else min(declared, most)


async def stream_body(headers: Headers, receive: Receive, max_bytes: int) -> AsyncIterator[bytes]:
    """Yield the body's chunks. Raises as `read_body`, and `ClientDisconnect` if the client disconnects."""
    if (declared_length(headers) or 0) > max_bytes:
        raise too_large(max_bytes)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        yield chunk
        more = message.get("more_body", False)


def require_json(headers: Headers, *others: str) -> str:
    """Return the body's media type, by default JSON. Raises `UnsupportedMediaType` unless JSON or in `others`."""
    given = (header(headers, b"content-type") or "application/json").partition(";")[0].strip().lower()
    if given not in JSON_TYPES and not given.endswith("+json") and given not in others:
        raise UnsupportedMediaType(f"Send {' or '.join(('application/json', *others))}, not {given}.")
    return given


def require_utf8(headers: Headers) -> None:
    """Raises `UnsupportedMediaType` for a form with another charset: some decode to invalid Unicode."""
    _, parameters = parse_options_header(header(headers, b"content-type"))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in FORM_CHARSETS:
        raise UnsupportedMediaType(f"Send forms as UTF-8, not {charset[:40]}.")


def parse_json(body: bytes) -> Any:
    """Parse JSON with exact integers, also beyond 64 bits: `wide_integers` finds those.

    Raises as `load_json` and `check_size`.
    """
    value = load_json(body)
    check_size(value)
    # orjson parses integers beyond 64 bits as floats
    return json.loads(body) if _MANY_DIGITS.search(body) else value


def load_json(body: bytes) -> Any:
    """Parse JSON of any size. Raises `MalformedJson` with the line."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(f"The body is not valid JSON: {error.msg} at line {error.lineno}.") from error


def check_size(value: Any, max_values: int = MAX_VALUES) -> None:
    """Raises `MalformedJson` for nesting deeper than `MAX_DEPTH`, `PayloadTooLarge` for too many values."""
    containers, values = [value] if isinstance(value, CONTAINERS) else [], 1
    for _ in range(MAX_DEPTH + 1):
        if not containers:
            return
        children = [child for one in containers for child in (one.values() if isinstance(one, dict) else one)]
        values += len(children)
        if values > max_values:
            raise PayloadTooLarge(
                f"The body may contain at most {max_values:,} JSON values.", max_values=max_values
            )
        containers = [child for child in children if isinstance(child, CONTAINERS)]
    raise MalformedJson(f"The body nests deeper than {MAX_DEPTH} levels.")


def parse_object(body: bytes) -> dict[str, Any]:
    """Parse a JSON object. Raises as `parse_json`, and `ValidationFailed` if it is not an object."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise ValidationFailed([Problem("", "must be a JSON object")])
    return value


async def read_object(request: Request, max_bytes: int) -> tuple[bytes, dict[str, Any]]:
    """Return the raw body, of at most `max_bytes`, and the parsed object."""
    headers = headers_of(request.scope)
    require_json(headers)
    body = await read_body(headers, request.receive, max_bytes)
    return body, await off_loop(len(body), parse_object, body)


def too_large(max_bytes: int) -> PayloadTooLarge:
    """Return the error for a body of more than `max_bytes`."""
    return PayloadTooLarge(f"The body of this request may have at most {max_bytes:,} bytes.", max_bytes=max_bytes)


class RequestKeyStore(Protocol):
    """Stores the content hash of idempotency keys."""

    async def claim(self, name: str, content: str) -> str | None: ...


async def is_repetition(
    keys: RequestKeyStore, account: str, request: Request, given: str | None, body: bytes = b""
) -> bool:
    """Return whether this request is a repetition by its `Idempotency-Key` (`given`); False without one.

    Raises `IdempotencyKeyReused` if the body differs. A key's scope is account, method and path.
    """
    if given is None:
        return False
    scope = "\0".join((account, request.method, request.url.path.rstrip("/"), given))
    content = sha256(body).hexdigest()
    earlier = await keys.claim(sha256(scope.encode()).hexdigest(), content)
    if earlier not in (None, content):
        raise IdempotencyKeyReused("This Idempotency-Key was used for another request.")
    return earlier is not None


def json_text(schema: Schema) -> Schema:
    """Return the schema of a text that holds JSON, as `schema` describes it."""
    return {"type": "string", "contentMediaType": "application/json", "contentSchema": schema} | about(schema)


def plain_text(schema: Schema) -> Schema:
    """Return the schema of a text, which may also be null, with its largest size."""
    alternatives = [each for each in schema.get("anyOf", (schema,)) if each.get("type") == "string"]
    sizes = {name: each[name] for each in alternatives for name in each if name.startswith(("max", "x-max"))}
    return {"type": "string"} | sizes


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
        else plain_text(schema) | about(schema)
        if name in texts
        else json_text(schema)
        for name, schema in properties.items()
    }


URLENCODED: Final = "application/x-www-form-urlencoded"


def parse_fields(body: bytes, most: int = FORM_FIELDS) -> list[tuple[str, str | UploadFile]]:
    """Parse an urlencoded form. Raises `PayloadTooLarge` for more than `most` fields, before any is parsed."""
    if body.count(b"&") >= most:
        raise _too_many(most)
    return [*parse_qsl(body.decode(errors="replace"), keep_blank_values=True)]


def _too_many(most: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"A form may have {most:,} fields at most.", max_fields=most)


def in_pieces(receive: Receive) -> Receive:
    """Return the messages of `receive`, those with a large body in pieces, each in a turn of the event loop.

    Parsing a form costs up to a microsecond for each byte.
    """
    left: deque[Any] = deque()

    async def pieces() -> Any:
        if left:
            await asyncio.sleep(0)
            return left.popleft()
        message: Any = await receive()
        body: bytes = message.get("body", b"")
        for start in range(TURN_BYTES, len(body), TURN_BYTES):
            left.append(message | {"body": body[start : start + TURN_BYTES]})
        if not left:
            return message
        for piece in [*left][:-1]:
            piece["more_body"] = True
        return message | {"body": body[:TURN_BYTES], "more_body": True}

    return pieces


@asynccontextmanager
async def open_form(request: Request, max_bytes: int, kinds: Sequence[str], most: int) -> AsyncIterator[FormData]:
    """Parse a form of one of the media types `kinds`, with one file and at most `most` fields.

    Large files are spooled to a temporary file. Raises `PayloadTooLarge` as soon as the limit is exceeded,
    `UnsupportedMediaType`, and `ValidationFailed`.
    """
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given not in kinds:
        raise UnsupportedMediaType(f"Send {' or '.join(kinds)}, not {given or 'nothing'}.")
    headers = headers_of(request.scope)
    require_utf8(headers)
    if given == URLENCODED:  # without a file
        body = await read_body(headers, request.receive, FORM_FIELDS_BODY)
        yield FormData(await off_loop(len(body), parse_fields, body, most))
        return
    try:
        form = await _limited(request, max_bytes + FORM_FIELDS_BODY).form(
            max_files=1, max_fields=most, max_part_size=FORM_FIELDS_BODY
        )
    except HTTPException as error:
        raise ValidationFailed([Problem("", str(error.detail))]) from None
    try:
        for part in form.values():
            if isinstance(part, UploadFile) and (part.size or 0) > max_bytes:
                raise _file_too_large(max_bytes)
        yield form
    finally:
        await form.close()


def _limited(request: Request, max_bytes: int) -> Request:
    """Return the request with a body that raises `PayloadTooLarge` after `max_bytes`."""
    if (declared_length(headers_of(request.scope)) or 0) > max_bytes:
        raise _file_too_large(max_bytes)
    size = 0

    async def receive() -> Any:
        nonlocal size
        message = await request.receive()
        size += len(message.get("body", b""))
        if size > max_bytes:
            raise _file_too_large(max_bytes)
        return message

    return Request(request.scope, in_pieces(receive))


def _file_too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The file may have {max_bytes:,} bytes at most.", max_bytes=max_bytes)
