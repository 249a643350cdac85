"""Conditional requests (RFC 9110): strong validators only."""

import re
from typing import Final

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
