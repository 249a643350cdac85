"""Conversion of times: microseconds since 1970 UTC internally, RFC 3339 in the API."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

_RFC_3339: Final = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)


def timestamp(microseconds: int | None) -> str | None:
    """Format as RFC 3339 in UTC, to the microsecond; None stays None."""
    if microseconds is None:
        return None
    seconds, fraction = divmod(microseconds, 1_000_000)
    return f"{_second(seconds)}.{fraction:06}Z"


@lru_cache(maxsize=256)
def _second(seconds: int) -> str:
    """Format a second; those of votes repeat."""
    return (_EPOCH + timedelta(seconds=seconds)).replace(tzinfo=None).isoformat(timespec="seconds")


def microseconds(value: datetime) -> int:
    """Convert to microseconds since 1970 UTC."""
    return (value - _EPOCH) // _MICROSECOND


def parse_timestamp(value: object) -> datetime:
    """Parse RFC 3339 with an offset into UTC, truncated to the microsecond. Raises `ValueError`."""
    if not isinstance(value, str) or not (match := _RFC_3339.fullmatch(value)):
        raise ValueError("must be an RFC 3339 timestamp with an offset, like 2026-05-01T18:00:00Z")
    fraction = match[1] or ""
    try:
        return datetime.fromisoformat(value.upper().replace(fraction, fraction[:7], 1)).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError("is no valid date and time") from error
