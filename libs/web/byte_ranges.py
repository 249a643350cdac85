"""Bytes of a caller's own, sent back: part of them (RFC 9110), under their name (RFC 6266)."""

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
"""No browser runs what is sent with these as a page of ours, or tells others its address."""


class Span(NamedTuple):
    """From `start` up to but not including `end`."""

    start: int
    end: int


def asked_range(header: str | None, size: int) -> Span | None:
    """The one range that is asked for; None for several, or what is no range of bytes: then all is sent.

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
    """The `Content-Disposition` that saves under this name, for old clients under one like it."""
    plain = _UNSAFE.sub("_", filename)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"
