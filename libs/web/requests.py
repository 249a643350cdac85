"""Reading what a caller sent: bodies within a size, JSON, and parameters."""

import json
import re
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

import orjson
from python_multipart.multipart import parse_options_header
from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

from libs.contracts.validation import Problem, ValidationFailed
from libs.web.auth import Headers, header, headers_of
from libs.web.errors import MalformedJson, PayloadTooLarge, UnsupportedMediaType

MAX_JSON_BYTES: Final = 1 << 20
MAX_VALUES: Final = 60_000
"""In one body, members and items together: a full report of an external source has 50,000. Each takes a few
microseconds of everybody's time."""
MAX_DEPTH: Final = 100
"""Objects and arrays in one another; deeper bodies are no records of anybody."""
JSON_TYPES: Final = ("application/json", "application/merge-patch+json")
FORM_CHARSETS: Final = ("utf-8", "utf8", "us-ascii")
_MANY_DIGITS: Final = re.compile(rb"[0-9]{19}")
_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


async def read_body(headers: Headers, receive: Receive, max_bytes: int = MAX_JSON_BYTES) -> bytes:
    """The whole body. Raises `PayloadTooLarge` as soon as that is certain, before the rest is read."""
    chunks = [chunk async for chunk in stream_body(headers, receive, max_bytes)]
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


def declared_length(headers: Headers) -> int | None:
    """The Content-Length; None where there is none, or where it is no number."""
    value = header(headers, b"content-length") or ""
    return int(value.lstrip("0")[:20] or 0) if value.isascii() and value.isdigit() else None


def declared_size(headers: Headers, most: int) -> int:
    """The body's size by its Content-Length, or `most` without one; never more than `most`."""
    declared = declared_length(headers)
    return most if declared is None else min(declared, most)


async def stream_body(headers: Headers, receive: Receive, max_bytes: int) -> AsyncIterator[bytes]:
    """The body as it comes in. Raises as `read_body`, and `ClientDisconnect` where it breaks off."""
    if (declared_length(headers) or 0) > max_bytes:
        raise _too_large(max_bytes)
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunk: bytes = message.get("body", b"")
        size += len(chunk)
        if size > max_bytes:
            raise _too_large(max_bytes)
        yield chunk
        more = message.get("more_body", False)


def require_json(headers: Headers, *others: str) -> str:
    """The body's media type, JSON when nothing is said. Raises `UnsupportedMediaType` for all but `others`."""
    given = (header(headers, b"content-type") or "application/json").partition(";")[0].strip().lower()
    if given not in JSON_TYPES and not given.endswith("+json") and given not in others:
        raise UnsupportedMediaType(f"Send {' or '.join(('application/json', *others))}, not {given}.")
    return given


def require_utf8(headers: Headers) -> None:
    """Raises `UnsupportedMediaType` for a form that names another charset: some make texts that are no Unicode."""
    _, parameters = parse_options_header(header(headers, b"content-type"))
    charset = parameters.get(b"charset", b"utf-8").decode("latin-1")
    if charset.lower() not in FORM_CHARSETS:
        raise UnsupportedMediaType(f"Send forms as UTF-8, not {charset[:40]}.")


def parse_json(body: bytes) -> Any:
    """Integers are exact, also those beyond 64 bits: `wide_integers` finds them.

    Raises as `load_json` and `check_size`.
    """
    value = load_json(body)
    check_size(value)
    # the fast parser makes floats of integers beyond 64 bits
    return json.loads(body) if _MANY_DIGITS.search(body) else value


def load_json(body: bytes) -> Any:
    """JSON of any size. Raises `MalformedJson`, saying where."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise MalformedJson(f"The body is not JSON: {error.msg} at line {error.lineno}.") from error


def check_size(value: Any, max_values: int = MAX_VALUES) -> None:
    """Raises `MalformedJson` for what nests deeper than `MAX_DEPTH`, `PayloadTooLarge` for too many values."""
    containers, values = [value], 1
    for _ in range(MAX_DEPTH + 1):
        children = [child for one in containers if isinstance(one, dict | list) for child in _children(one)]
        if not children:
            return
        values += len(children)
        if values > max_values:
            raise PayloadTooLarge(f"JSON may hold {max_values:,} values at most.", max_values=max_values)
        containers = children
    raise MalformedJson(f"The body nests deeper than {MAX_DEPTH} levels.")


def parse_object(body: bytes) -> dict[str, Any]:
    """As `parse_json`; what is no object is a `ValidationFailed`."""
    value = parse_json(body)
    if not isinstance(value, dict):
        raise ValidationFailed([Problem("", "must be a JSON object")])
    return value


async def read_object(request: Request) -> tuple[bytes, dict[str, Any]]:
    """The body as it came, and as an object."""
    headers = headers_of(request.scope)
    require_json(headers)
    body = await read_body(headers, request.receive)
    return body, parse_object(body)


def idempotency_key(request: Request) -> str | None:
    """The caller's `Idempotency-Key`. Raises `ValidationFailed` for one that is no key."""
    key = request.headers.get("idempotency-key")
    if key is not None and not _IDEMPOTENCY_KEY.fullmatch(key):
        raise ValidationFailed([Problem("", "Idempotency-Key must be 1 to 255 visible ASCII characters")])
    return key


def integer_parameter(request: Request, name: str, default: int, least: int, most: int) -> int:
    """A query parameter. Raises `ValidationFailed` when it is no integer between `least` and `most`."""
    given = request.query_params.get(name)
    if given is None:
        return default
    if not re.fullmatch(r"-?[0-9]{1,18}", given) or not least <= int(given) <= most:
        raise ValidationFailed([Problem("", f"{name} must be an integer from {least} to {most}")])
    return int(given)


def _children(container: dict[str, Any] | list[Any]) -> Iterable[Any]:
    return container.values() if isinstance(container, dict) else container


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(f"The body may have {max_bytes} bytes at most.", max_bytes=max_bytes)
