"""Forms with one file, within limits of size: parsing, and their schemas in the documents."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import orjson
from starlette.datastructures import FormData, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request

from libs.contracts.validation import Problem, ValidationFailed
from libs.web.documents.openapi import Schema
from libs.web.door.auth import headers_of
from libs.web.door.request_parsing import MAX_JSON_BYTES, declared_length, require_utf8
from libs.web.errors import PayloadTooLarge, UnsupportedMediaType

SPACE: Final = "[ \\t\\n\\r]*"
BRACKETS: Final[Mapping[str, str]] = {
    "object": r"\{[\s\S]*\}",
    "array": r"\[[\s\S]*\]",
    "boolean": "true|false",
    "null": "null",
}
"""Outermost pattern of JSON texts, by JSON type."""
INTEGER: Final = "0|-?[1-9][0-9]{0,19}"
"""Longer integers exceed 64 bits."""


def json_text(schema: Schema, *types: str, may_be_empty: bool = False) -> Schema:
    """Return the schema of a text that holds JSON of one of `types`, as `schema` describes it."""
    form = f"{SPACE}({'|'.join(BRACKETS[each] for each in types)}){SPACE}"
    return {
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": schema,
        "pattern": f"^({form})?$" if may_be_empty else f"^{form}$",
    }


def integer_text(schema: Schema, *, may_be_empty: bool = False) -> Schema:
    """Return the schema of a decimal integer as text, within the bounds of `schema`."""
    digits = "|".join(_within(schema)) if {"minimum", "maximum"} <= schema.keys() else INTEGER
    return {"type": "string", "pattern": f"^({digits}){'?' if may_be_empty else ''}$"}


def about(schema: Schema) -> Schema:
    """Return a member's description, and its default as text."""
    described = {name: schema[name] for name in ("description",) if name in schema}
    default = schema.get("default")
    if default is not None:
        described["default"] = default if isinstance(default, str) else orjson.dumps(default).decode()
    return described


def types_of(schema: Schema) -> list[str]:
    """Return the JSON types in a schema; a `$ref` counts as an object."""
    named = [each.get("type", "object" if "$ref" in each else None) for each in schema.get("anyOf", [schema])]
    return [each for each in named if isinstance(each, str)]


def _within(schema: Schema) -> Iterator[str]:
    """Yield patterns of the integers within the bounds of `schema`."""
    least, most = schema["minimum"], schema["maximum"]
    if not least <= 1 <= most:
        raise ValueError(f"no pattern for integers from {least} to {most}")
    if least < 0:
        yield from (f"-{each}" for each in _up_to(-least))
    if least <= 0 and schema.get("not") != {"const": 0}:
        yield "0"
    yield from _up_to(most)


def _up_to(most: int) -> Iterator[str]:
    """Yield patterns of the integers from 1 to `most`, without leading zeros."""
    digits = str(most)
    if len(digits) > 1:
        yield f"[1-9][0-9]{{0,{len(digits) - 2}}}"
    for place, digit in enumerate(digits):
        first, left = int(place == 0), len(digits) - place - 1
        if int(digit) > first:
            rest = f"[0-9]{{{left}}}" if left else ""
            yield f"{digits[:place]}[{first}-{int(digit) - 1}]{rest}"
    yield digits


def as_fields(properties: Mapping[str, Any], texts: tuple[str, ...]) -> Schema:
    """Return form fields for `properties`: those in `texts` unchanged, other members as JSON text."""
    return {
        name: about(schema) | ({"type": "string"} if name in texts else json_text(schema, *types_of(schema)))
        if types_of(schema)
        else schema
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
