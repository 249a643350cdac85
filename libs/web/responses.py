"""Responses: JSON, entity tags, byte ranges, and values that are cached for a time."""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar
from urllib.parse import quote

import orjson
from starlette.responses import Response

from libs.web.errors import RangeNotSatisfiable

NO_STORE: Final = {"Cache-Control": "no-store"}
NO_HEADERS: Final[Mapping[str, str]] = {}


def json_response(
    body: object,
    status: int = 200,
    headers: Mapping[str, str] = NO_HEADERS,
    *,
    replayed: bool = False,
    if_none_match: str | None = None,
) -> Response:
    """Return `body` as JSON; `replayed` adds the header `Idempotent-Replayed`.

    A reader who has the version in `headers`, by `If-None-Match`, gets 304.
    """
    if if_none_match is not None and not_modified(if_none_match, headers["ETag"]):
        return Response(status_code=304, headers=dict(headers))
    sent = {**headers, "Idempotent-Replayed": "true"} if replayed else dict(headers)
    return Response(orjson.dumps(body), status, sent, "application/json")


MAX_TAGS: Final = 100
"""Entity tags compared per header; later ones match nothing."""
_TAG: Final = re.compile(r'[ \t,]*(W/)?("[\x21\x23-\x7e\x80-\xff]*")[ \t]*(?:,|$)')
"""Matched only at the end of the previous match: searching would be quadratic in runs of spaces."""


def etag(version: int | str) -> str:
    """Return the strong entity tag of a version."""
    return f'"{version}"'


def matches(condition: str | None, tag: str, *, weak: bool = False) -> bool:
    """Return whether a list of entity tags, or `*`, matches `tag`; `weak` comparison is for If-None-Match.

    The list ends where it is malformed.
    """
    if condition is None:
        return False
    if condition.strip() == "*":
        return True
    at = 0
    for _ in range(MAX_TAGS):
        found = _TAG.match(condition, at)
        if found is None:
            return False
        if found[2] == tag and (weak or not found[1]):
            return True
        at = found.end()
    return False


def not_modified(if_none_match: str | None, tag: str) -> bool:
    """Return whether a read responds 304."""
    return matches(if_none_match, tag, weak=True)


def precondition_fails(if_match: str | None, tag: str) -> bool:
    """Return whether a write responds 412; never without the header."""
    return if_match is not None and not matches(if_match, tag)


NOT_SHARED: Final = (b"cache-control", b"private, no-cache")
"""Header of GET responses without `Cache-Control`: by default, shared caches skip responses to requests with
`Authorization`, but not with a cookie."""


T = TypeVar("T")

KEPT_S: Final = 1.0


class OncePerSecond(Generic[T]):
    """Calls `find` for the first caller; others share its result for `KEPT_S`, also while it is pending."""

    def __init__(self, find: Callable[[], Awaitable[T]], clock: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._clock = clock
        self._found: asyncio.Future[T] | None = None
        self._at = 0.0

    async def get(self) -> T:
        """Return the value. Raises the errors of `find`."""
        now = self._clock()
        if self._found is None or (self._found.done() and now >= self._at + KEPT_S):
            self._at = now
            self._found = asyncio.ensure_future(self._find())
        return await asyncio.shield(self._found)


_RANGE: Final = re.compile(r"bytes=(\d*)-(\d*)", re.ASCII | re.IGNORECASE)
_MANY_DIGITS: Final = 18
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9 ._()+,=@-]")

SAFE: Final = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; sandbox",
    "Referrer-Policy": "no-referrer",
}
"""Headers that keep browsers from running uploaded content in our origin, and from sending its URL as referrer."""


class Span(NamedTuple):
    """The bytes from `start` to before `end`."""

    start: int
    end: int


def requested_range(header: str | None, size: int) -> Span | None:
    """Return the requested range; None for several ranges or a malformed header: then send all.

    Raises `RangeNotSatisfiable`.
    """
    match = _RANGE.fullmatch((header or "").strip())
    if match is None or max(map(len, match.groups())) > _MANY_DIGITS:
        return None
    first, last = match.groups()
    if not first and not last:
        return None
    start = int(first) if first else max(0, size - int(last))
    end = min(size, int(last) + 1) if first and last else size
    if first and last and int(first) > int(last):
        return None
    if start >= end:
        raise RangeNotSatisfiable(size)
    return Span(start, end)


def attachment(filename: str) -> str:
    """Return the `Content-Disposition` with this file name, and an ASCII one for old clients."""
    plain = _UNSAFE.sub("_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
