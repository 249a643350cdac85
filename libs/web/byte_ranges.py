"""Responses with uploaded bytes: byte ranges (RFC 9110) and file names (RFC 6266)."""

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from libs.web.errors import RangeNotSatisfiable

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
